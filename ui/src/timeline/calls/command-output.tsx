/** The output of a command, in its ANSI colours. */

import { memo, useEffect, useState } from "react";
import { lineChunks, textEnd } from "../line-chunks";
import { type Piece, Pieces } from "../spans";
import type { AnsiColours } from "./ansi";

const ESCAPE = "\u001b";
// biome-ignore lint/suspicious/noControlCharactersInRegex: this is what they begin with
const ESCAPES = /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[ -/]*[0-~])/g;

/** Characters of running output that are shown. */
const LONGEST = 60_000;

export const Output = memo(function Output({ text }: { readonly text: string }) {
  const shown = textEnd(text, LONGEST);
  const parts = lineChunks(shown);
  const colours = useColours(shown.includes(ESCAPE))?.of(parts);
  return (
    <>
      {shown !== text && <p className="call-words">The beginning is not shown.</p>}
      <pre>
        {parts.map((part, at) => (
          // Parts are added and removed only at the end.
          <Part key={String(at)} text={part} pieces={colours?.[at] ?? null} />
        ))}
      </pre>
    </>
  );
});

interface PartProps {
  readonly text: string;
  readonly pieces: readonly Piece[] | null;
}

const Part = memo(function Part({ text, pieces }: PartProps) {
  const plain = text.includes(ESCAPE) ? text.replace(ESCAPES, "") : text;
  return <span>{pieces === null ? plain : <Pieces all={pieces} />}</span>;
});

/** The colours of a text; null until they are loaded, or if it has none. */
function useColours(isNeeded: boolean): AnsiColours | null {
  const [colours, setColours] = useState<AnsiColours | null>(null);
  useEffect(() => {
    if (!isNeeded) return;
    let isGone = false;
    const load = async () => {
      const ansi = await import("./ansi");
      if (!isGone) setColours(new ansi.AnsiColours());
    };
    // Colours are optional.
    load().catch(() => {});
    return () => {
      isGone = true;
    };
  }, [isNeeded]);
  return isNeeded ? colours : null;
}
