/**
 * Markup of the highlighting libraries, as elements. It is parsed and never inserted as HTML: the
 * result can only be text and spans with a class.
 */

import { memo, type ReactNode } from "react";

/** A text, or nested pieces with a CSS class. */
export type Piece = string | Marked;

interface Marked {
  readonly look: string;
  readonly inner: readonly Piece[];
}

const MARKS = /<span\b([^>]*)>|<\/span>|[^<]+|</g;
const CLASS = /\bclass="([\w -]*)"/;
const ENTITY = /&(?:amp|lt|gt|quot|#x27|#39);/g;
const ENTITIES: Readonly<Record<string, string>> = {
  "&amp;": "&",
  "&lt;": "<",
  "&gt;": ">",
  "&quot;": '"',
  "&#x27;": "'",
  "&#39;": "'",
};

/** Pieces of HTML that consists of spans; other elements become text. */
export function piecesOf(html: string): readonly Piece[] {
  const outermost: Piece[] = [];
  const open = [outermost];
  for (const [mark, attributes] of html.matchAll(MARKS)) {
    if (mark === "</span>") {
      if (open.length > 1) open.pop();
    } else if (attributes === undefined) {
      open.at(-1)?.push(mark.replace(ENTITY, (name) => ENTITIES[name] ?? name));
    } else {
      const inner: Piece[] = [];
      open.at(-1)?.push({ look: CLASS.exec(attributes)?.[1] ?? "", inner });
      open.push(inner);
    }
  }
  return outermost;
}

export const Pieces = memo(function Pieces({ all }: { readonly all: readonly Piece[] }): ReactNode {
  return all.map((piece, at) =>
    typeof piece === "string" ? (
      piece
    ) : (
      // biome-ignore lint/suspicious/noArrayIndexKey: pieces have no names, and stay in their order
      <span key={at} className={piece.look}>
        <Pieces all={piece.inner} />
      </span>
    ),
  );
});
