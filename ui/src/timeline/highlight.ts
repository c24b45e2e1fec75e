/** Syntax highlighting. Loaded with the first visible code, because it is large. */

import core from "highlight.js/lib/core";
import bash from "highlight.js/lib/languages/bash";
import c from "highlight.js/lib/languages/c";
import cpp from "highlight.js/lib/languages/cpp";
import csharp from "highlight.js/lib/languages/csharp";
import css from "highlight.js/lib/languages/css";
import diff from "highlight.js/lib/languages/diff";
import go from "highlight.js/lib/languages/go";
import ini from "highlight.js/lib/languages/ini";
import java from "highlight.js/lib/languages/java";
import javascript from "highlight.js/lib/languages/javascript";
import json from "highlight.js/lib/languages/json";
import markdown from "highlight.js/lib/languages/markdown";
import python from "highlight.js/lib/languages/python";
import rust from "highlight.js/lib/languages/rust";
import sql from "highlight.js/lib/languages/sql";
import typescript from "highlight.js/lib/languages/typescript";
import xml from "highlight.js/lib/languages/xml";
import yaml from "highlight.js/lib/languages/yaml";
import { type Piece, piecesOf } from "./spans";

const LANGUAGES = {
  bash,
  c,
  cpp,
  csharp,
  css,
  diff,
  go,
  ini,
  java,
  javascript,
  json,
  markdown,
  python,
  rust,
  sql,
  typescript,
  xml,
  yaml,
};

for (const [name, language] of Object.entries(LANGUAGES)) core.registerLanguage(name, language);
core.registerAliases(["console", "shell", "shellsession"], { languageName: "bash" });
core.registerAliases(["jsonc", "json5", "jsonl"], { languageName: "json" });

/** Highlighted pieces of code; null for an unknown language. */
export function coloured(text: string, language: string): readonly Piece[] | null {
  const name = language.toLowerCase();
  if (core.getLanguage(name) === undefined) return null;
  const { value } = core.highlight(text, { language: name, ignoreIllegals: true });
  return piecesOf(value);
}
