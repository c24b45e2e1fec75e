/** Parsing of JSON that a person typed, with errors by line. Pure. */

export type Parsed<T> =
  | { readonly is: "good"; readonly value: T }
  /** The error, for the user. */
  | { readonly is: "bad"; readonly why: string };

export function objectOrNull(text: string): Record<string, unknown> | null {
  const read = parseObject(text);
  return read.is === "good" ? read.value : null;
}

/** Parses the arguments of a call, which must be an object. */
export function parseObject(text: string): Parsed<Record<string, unknown>> {
  const read = parseJson(text);
  if (read.is === "bad") return read;
  const { value } = read;
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    return { is: "bad", why: "Arguments must be a JSON object, in braces." };
  }
  return { is: "good", value: value as Record<string, unknown> };
}

export function parseJson(text: string): Parsed<unknown> {
  if (text.trim() === "") return { is: "bad", why: "Nothing entered yet." };
  try {
    return { is: "good", value: JSON.parse(text) };
  } catch (error) {
    return { is: "bad", why: `This is not valid JSON: ${withLineNumber(String(error), text)}` };
  }
}

/** Replaces the character position in a parser's message by line and column. */
function withLineNumber(error: string, text: string): string {
  const message = error.replace(/^SyntaxError: (JSON\.parse: )?/, "");
  const at = /^(.*?)(?: in JSON)? at position (\d+)/.exec(message);
  if (at === null) return message.endsWith(".") ? message : `${message}.`;
  const before = text.slice(0, Number(at[2])).split("\n");
  return `${at[1]}, line ${before.length}, column ${(before.at(-1)?.length ?? 0) + 1}.`;
}
