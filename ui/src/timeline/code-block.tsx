/** A code block: language, copy button, and highlighting once it is complete. */

import { memo, useEffect, useRef, useState } from "react";
import { CopyButton } from "./copy-button";
import { lineChunks } from "./line-chunks";
import { ScrollRegion } from "./scroller";
import { type Piece, Pieces } from "./spans";
import { whenVisible } from "./when-visible";

interface Props {
  readonly text: string;
  readonly language: string;
  readonly growing: boolean;
}

export const CodeBlock = memo(function Code({ text, language, growing }: Props) {
  const place = useRef<HTMLElement>(null);
  const coloured = useColours(place, text, language, growing);
  return (
    <figure className="code" ref={place}>
      <figcaption>
        <span>{language || "text"}</span>
        <CopyButton label="Copy the code" text={() => text} />
      </figcaption>
      <ScrollRegion className="code-text" label={language ? `Code, ${language}` : "Code"}>
        <pre>
          {coloured === null ? (
            <Lines text={text} />
          ) : (
            <code>
              <Pieces all={coloured} />
            </code>
          )}
        </pre>
      </ScrollRegion>
    </figure>
  );
});

/** Code in parts: while it grows, only the last part is laid out again. */
function Lines({ text }: { readonly text: string }) {
  // Parts are added and removed only at the end.
  return (
    <code>
      {lineChunks(text).map((part, at) => (
        <span key={String(at)} className="code-part">
          {part}
        </span>
      ))}
    </code>
  );
}

/** Longer code is not highlighted. */
const LONGEST = 40_000;

/** Highlighted pieces; null until they are computed, when the code comes near the screen. */
function useColours(
  place: React.RefObject<HTMLElement | null>,
  text: string,
  language: string,
  growing: boolean,
): readonly Piece[] | null {
  const [highlighted, setHighlighted] = useState<{ of: string; pieces: readonly Piece[] } | null>(
    null,
  );
  useEffect(() => {
    const element = place.current;
    if (growing || !language || text.length > LONGEST || element === null) return;
    let isUnmounted = false;
    const colour = async () => {
      const { coloured } = await import("./highlight");
      const pieces = isUnmounted ? null : coloured(text, language);
      if (pieces !== null && !isUnmounted) setHighlighted({ of: text, pieces });
    };
    // Colours are optional.
    const stop = whenVisible(element, () => void colour().catch(() => {}));
    return () => {
      isUnmounted = true;
      stop();
    };
  }, [place, text, language, growing]);
  return highlighted?.of === text ? highlighted.pieces : null;
}
