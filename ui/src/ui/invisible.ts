/** Invisible characters, which a model reads and a person does not see. Pure. */

/** Legitimate uses in visible text: region flags, emoji sequences, joiners in some scripts. */
const LEGITIMATE = [
  /\u{1F3F4}[\u{E0061}-\u{E007A}\u{E0030}-\u{E0039}]+\u{E007F}/gu,
  /(?<=\p{Extended_Pictographic}|\p{Emoji_Modifier}|\uFE0F|\u20E3)\u200D(?=\p{Extended_Pictographic})/gu,
  /(?<=[\p{Emoji}\p{Extended_Pictographic}])[\uFE0E\uFE0F]/gu,
  // Joiners between letters of scripts that need them.
  /(?<=[\p{L}\p{M}])[\u200C\u200D](?=[\p{L}\p{M}])/gu,
];

const DIRECTION = /[\u061C\u200E\u200F\u202A-\u202E\u2066-\u2069]/gu;
/** Control characters except tab and line ends; zero-width spaces, fillers, tags, selectors. */
const HIDDEN =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
  /[\u0000-\u0008\u000B\u000C\u000E-\u001F\u007F-\u009F\u00AD\u115F\u1160\u200B-\u200D\u2060-\u2065\u206A-\u206F\u3164\uFEFF\uFFA0\uFFF0-\uFFFB]|\u034F|[\u17B4\u17B5]|[\u180B-\u180F]|[\uFE00-\uFE0F]|[\u{1D173}-\u{1D17A}]|[\u{E0000}-\u{E0FFF}]/gu;

export interface InvisibleCounts {
  readonly hidden: number;
  /** Characters that change the direction of the text. */
  readonly directional: number;
}

export function countInvisible(text: string): InvisibleCounts {
  const rest = LEGITIMATE.reduce((remaining, proper) => remaining.replace(proper, ""), text);
  return { hidden: count(rest, HIDDEN), directional: count(rest, DIRECTION) };
}

const LEGITIMATE_OR_INVISIBLE = new RegExp(
  [`(${LEGITIMATE.map((each) => each.source).join("|")})`, HIDDEN.source, DIRECTION.source].join(
    "|",
  ),
  "gu",
);

/** The text with an escape such as \\u202e for each invisible or direction character. */
export function escapeInvisible(text: string): string {
  return text.replace(LEGITIMATE_OR_INVISIBLE, (character, proper?: string) =>
    proper !== undefined ? character : Array.from(character, escapeOne).join(""),
  );
}

function escapeOne(character: string): string {
  const code = character.codePointAt(0) ?? 0;
  const hex = code.toString(16);
  return code > 0xffff ? `\\u{${hex}}` : `\\u${hex.padStart(4, "0")}`;
}

function count(text: string, what: RegExp): number {
  return text.match(what)?.length ?? 0;
}

/** The warning about invisible characters in a text; null if there are none. */
export function invisibleWarning(text: string): string | null {
  const { hidden, directional } = countInvisible(text);
  const what = [
    hidden > 0 ? characters(hidden, "invisible") : null,
    directional > 0 ? characters(directional, "text-direction") : null,
  ].filter((each) => each !== null);
  if (what.length === 0) return null;
  return `This text contains ${what.join(" and ")}. The model reads characters that you do not see.`;
}

function characters(count: number, kind: string): string {
  return `${count} ${kind} ${count === 1 ? "character" : "characters"}`;
}
