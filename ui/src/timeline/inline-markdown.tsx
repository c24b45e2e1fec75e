/** Inline Markdown: emphasis, code, links, images. */

import type { Token } from "marked";
import { memo, type ReactNode } from "react";
import { Icon } from "./icon";
import { inlineTokens } from "./markdown-lexer";
import { decodedEntities, pictureOf, safeLink } from "./safe-url";

export const Inline = memo(function Inline({ text }: { readonly text: string }) {
  return <Pieces tokens={inlineTokens(text)} />;
});

function Pieces({ tokens }: { readonly tokens: readonly Token[] | undefined }) {
  return tokens?.map((token, at) => (
    // biome-ignore lint/suspicious/noArrayIndexKey: tokens have no names, and stay in their order
    <Piece key={at} token={token} />
  ));
}

function Piece({ token }: { readonly token: Token }): ReactNode {
  const tokens = "tokens" in token ? token.tokens : undefined;
  switch (token.type) {
    case "strong":
      return (
        <strong>
          <Pieces tokens={tokens} />
        </strong>
      );
    case "em":
      return (
        <em>
          <Pieces tokens={tokens} />
        </em>
      );
    case "del":
      return (
        <del>
          <Pieces tokens={tokens} />
        </del>
      );
    case "codespan":
      return <code>{token.text}</code>;
    case "br":
      return <br />;
    case "link":
      return (
        <SafeLink href={token.href}>
          <Pieces tokens={tokens} />
        </SafeLink>
      );
    case "image":
      return <Image href={token.href} alt={decodedEntities(token.text)} raw={token.raw} />;
    case "escape":
      return token.text;
    case "text":
      return tokens ? <Pieces tokens={tokens} /> : decodedEntities(token.text);
    default:
      return token.raw;
  }
}

interface SafeLinkProps {
  readonly href: string;
  readonly children: ReactNode;
}

/** A link, or plain text if its URL is unsafe. */
export function SafeLink({ href, children }: SafeLinkProps) {
  const safe = safeLink(href);
  if (safe === null) return <span title="Unsafe link, disabled">{children}</span>;
  return (
    <a href={safe} target="_blank" rel="noopener noreferrer nofollow">
      {children}
    </a>
  );
}

interface ImageProps {
  readonly href: string;
  readonly alt: string;
  readonly raw: string;
}

/** An image. Remote images load on request only: their host learns nothing about readers. */
function Image({ href, alt, raw }: ImageProps) {
  const picture = pictureOf(href);
  if (picture === null) return raw;
  if (picture.is === "here") return <img src={picture.src} alt={alt} />;
  return (
    <button
      type="button"
      className="markdown-picture"
      title={picture.href}
      onClick={() => open(picture.href, "_blank", "noopener,noreferrer")}
    >
      <Icon name="image-off" size={14} />
      Load picture from {picture.host}
      {alt && <span> · {alt}</span>}
    </button>
  );
}
