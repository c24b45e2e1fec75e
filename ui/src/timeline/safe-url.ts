/** Safe URLs of links and images in Markdown. Pure. */

const NAMED: Readonly<Record<string, string>> = {
  amp: "&",
  lt: "<",
  gt: ">",
  quot: '"',
  apos: "'",
  nbsp: "\u00a0",
  copy: "©",
  reg: "®",
  trade: "™",
  hellip: "…",
  mdash: "—",
  ndash: "–",
  lsquo: "‘",
  rsquo: "’",
  ldquo: "“",
  rdquo: "”",
  laquo: "«",
  raquo: "»",
  bull: "•",
  middot: "·",
  times: "×",
  divide: "÷",
  deg: "°",
  plusmn: "±",
  le: "≤",
  ge: "≥",
  ne: "≠",
  rarr: "→",
  larr: "←",
  uarr: "↑",
  darr: "↓",
  euro: "€",
  pound: "£",
  sect: "§",
  para: "¶",
  infin: "∞",
  colon: ":",
  Tab: "\t",
  NewLine: "\n",
};

/** Decodes HTML entities; unknown ones stay as they are. */
export function decodedEntities(text: string): string {
  if (!text.includes("&")) return text;
  return text.replace(
    /&(?:#x([0-9a-f]{1,6})|#(\d{1,7})|([a-z]{2,8}));/gi,
    (all, hex, dec, name) => {
      if (name !== undefined) return Object.hasOwn(NAMED, name) ? (NAMED[name] ?? all) : all;
      const code = hex !== undefined ? Number.parseInt(hex, 16) : Number(dec);
      return code === 0 || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)
        ? "\ufffd"
        : String.fromCodePoint(code);
    },
  );
}

const SCHEMES = new Set(["http:", "https:", "mailto:"]);

/** The URL of a link if it is safe; null otherwise. */
export function safeLink(href: string): string | null {
  const url = urlOf(href);
  return url !== null && SCHEMES.has(url.protocol) ? url.href : null;
}

export type Picture =
  /** Embedded as a data URL. */
  | { readonly is: "here"; readonly src: string }
  /** On another host; opened in a new tab. */
  | { readonly is: "remote"; readonly href: string; readonly host: string };

/** Data URLs of raster images, which cannot run scripts. SVG can. */
const RASTER = /^data:image\/(png|jpe?g|gif|webp|avif);base64,[a-z0-9+/=\s]+$/i;

export function pictureOf(href: string): Picture | null {
  if (RASTER.test(href)) return { is: "here", src: href };
  const url = urlOf(href);
  if (url === null || !/^https?:$/.test(url.protocol)) return null;
  return { is: "remote", href: url.href, host: url.host };
}

function urlOf(href: string): URL | null {
  try {
    return new URL(decodedEntities(href));
  } catch {
    return null; // a relative URL has no base here
  }
}
