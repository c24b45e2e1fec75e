/** Parsing of JSON that a person typed, with errors by line. Pure. */

export type Read<T> =
  | { readonly is: "good"; readonly value: T }
  /** Why it cannot be sent, for the person who wrote it. */
  | { readonly is: "bad"; readonly why: string };

export function objectIn(text: string): Record<string, unknown> | null {
  const read = readObject(text);
  return read.is === "good" ? read.value : null;
}

/** The arguments of a call: an object, whatever is in it. */
export function readObject(text: string): Read<Record<string, unknown>> {
  const read = readJson(text);
  if (read.is === "bad") return read;
  const { value } = read;
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    return { is: "bad", why: "Arguments must be a JSON object, in braces." };
  }
  return { is: "good", value: value as Record<string, unknown> };
}

export function readJson(text: string): Read<unknown> {
  if (text.trim() === "") return { is: "bad", why: "Nothing entered yet." };
  try {
    return { is: "good", value: JSON.parse(text) };
  } catch (error) {
    return { is: "bad", why: `This is not valid JSON: ${placed(String(error), text)}` };
  }
}

/** Browsers say where it is wrong by counting characters; people count lines. */
function placed(error: string, text: string): string {
  const said = error.replace(/^SyntaxError: (JSON\.parse: )?/, "");
  const at = /^(.*?)(?: in JSON)? at position (\d+)/.exec(said);
  if (at === null) return said.endsWith(".") ? said : `${said}.`;
  const before = text.slice(0, Number(at[2])).split("\n");
  return `${at[1]}, line ${before.length}, column ${(before.at(-1)?.length ?? 0) + 1}.`;
}
