/** A unified diff. */

import { memo, useState } from "react";
import "./diff.css";
import { Button } from "../ui/button";
import { type LineChunk, lastChunks } from "./line-chunks";
import { type Mark, type Patch, parsedPatches } from "./parse-diff";
import { ScrollRegion } from "./scroller";

interface Props {
  readonly text: string;
  /** Without file names, when the caller shows them. */
  readonly bare?: boolean;
}

/** Renders a diff; other text is shown as it is. */
export const Diff = memo(function Diff({ text, bare = false }: Props) {
  const files = parsedPatches(text);
  if (files.length === 0) return <pre className="diff-words">{text}</pre>;
  return (
    <div className="diff">
      {files.map((patch, at) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: a file may be there twice
        <PatchView key={at} patch={patch} bare={bare && files.length === 1} />
      ))}
    </div>
  );
});

/** Lines shown before "Show more". */
const FIRST = 400;

interface PatchProps {
  readonly patch: Patch;
  readonly bare: boolean;
}

function PatchView({ patch, bare }: PatchProps) {
  const [all, setAll] = useState(false);
  const shown = all ? patch.lines : patch.lines.slice(0, FIRST);
  const more = patch.lines.length - shown.length;
  return (
    <div className="diff-file">
      {!bare && (
        <div className="diff-head">
          <span className="diff-name">{patch.file || "Change"}</span>
          <Counts patch={patch} />
        </div>
      )}
      <ScrollRegion className="diff-lines" label={`Change to ${patch.file || "a file"}`}>
        <table>
          <tbody>
            {shown.map((line, at) => (
              // biome-ignore lint/suspicious/noArrayIndexKey: lines have no names
              <LineView key={at} mark={line.mark} number={line.new ?? line.old} text={line.text} />
            ))}
          </tbody>
        </table>
      </ScrollRegion>
      {more > 0 && (
        <Button look="plain" onClick={() => setAll(true)}>
          Show {more} more lines
        </Button>
      )}
    </div>
  );
}

export function Counts({ patch }: { readonly patch: Pick<Patch, "added" | "removed" | "isNew"> }) {
  return (
    <span className="diff-counts">
      {patch.isNew && <span>new</span>}
      <span className="diff-added">
        +{patch.added}
        <span className="hidden-text"> lines added</span>
      </span>
      {!patch.isNew && (
        <span className="diff-removed">
          −{patch.removed}
          <span className="hidden-text"> lines removed</span>
        </span>
      )}
    </span>
  );
}

const SIGNS = { added: "+", removed: "−", same: " ", words: " " };

interface LineProps {
  readonly mark: Mark;
  readonly number: number | null;
  readonly text: string;
}

const LineView = memo(function LineView({ mark, number, text }: LineProps) {
  if (mark === "words") {
    return (
      <tr data-mark="words">
        <td colSpan={3}>{text}</td>
      </tr>
    );
  }
  return (
    <tr data-mark={mark}>
      <td className="diff-number">{number}</td>
      <td className="diff-sign">{SIGNS[mark]}</td>
      <td className="diff-text">{text}</td>
    </tr>
  );
});

/** Number of chunks shown of a file that is being written. */
const LAST = 3;

interface WrittenProps {
  readonly path: string;
  /** The content so far. */
  readonly text: string;
}

/** The end of a new file while it is being written. */
export const WrittenFile = memo(function Written({ path, text }: WrittenProps) {
  const parts = lastChunks(text, LAST);
  const before = (parts[0]?.line ?? 1) - 1;
  return (
    <div className="diff-file">
      <ScrollRegion className="diff-lines" label={`Content written to ${path || "a file"}`} follow>
        <table>
          {before > 0 && (
            <tbody>
              <LineView mark="words" number={null} text={`⋯ ${before} lines before`} />
            </tbody>
          )}
          {parts.map((part) => (
            <WrittenPart key={part.line} {...part} />
          ))}
        </table>
      </ScrollRegion>
    </div>
  );
});

const WrittenPart = memo(function WrittenPart({ line, text }: LineChunk) {
  return (
    <tbody>
      {text
        .replace(/\n$/, "")
        .split("\n")
        .map((each, at) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: lines have no names
          <LineView key={at} mark="added" number={line + at} text={each} />
        ))}
    </tbody>
  );
});
