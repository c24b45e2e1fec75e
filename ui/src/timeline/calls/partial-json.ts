/** Arguments of a call while they stream, from partial JSON. Pure. */

export type Values = Readonly<Record<string, unknown>>;

/** Values of a JSON object that may be incomplete; empty for anything else. */
export function valuesOf(json: string): Values {
  const whole = parsed(json);
  const value = whole === undefined ? new Reader(json).value() : whole;
  const isObject = typeof value === "object" && value !== null && !Array.isArray(value);
  return isObject ? (value as Values) : {};
}

function parsed(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch {
    return undefined;
  }
}

export function text(values: Values, name: string): string {
  const value = values[name];
  return typeof value === "string" ? value : "";
}

export function number(values: Values, name: string): number | null {
  const value = values[name];
  return typeof value === "number" ? value : null;
}

/** The objects in a list. */
export function objects(values: Values, name: string): readonly Values[] {
  const value = values[name];
  if (!Array.isArray(value)) return [];
  return value.filter((each): each is Values => typeof each === "object" && each !== null);
}

/** Parses as far as possible, and closes what is open. */
class Reader {
  readonly #json: string;
  #at = 0;

  constructor(json: string) {
    this.#json = json;
  }

  /** Undefined if there is no complete value yet. */
  value(): unknown {
    switch (this.#peek()) {
      case "{":
        return this.#object();
      case "[":
        return this.#list();
      case '"':
        return this.#string();
      default:
        return this.#word();
    }
  }

  #peek(): string {
    while (/\s/.test(this.#json[this.#at] ?? "")) this.#at += 1;
    return this.#json[this.#at] ?? "";
  }

  #object(): Record<string, unknown> {
    const result: Record<string, unknown> = {};
    this.#at += 1;
    while (this.#peek() === '"') {
      const name = this.#string();
      if (this.#peek() !== ":") break;
      this.#at += 1;
      const value = this.value();
      // Not by assignment: a name may be __proto__.
      if (value !== undefined) Object.defineProperty(result, name, { value, enumerable: true });
      if (this.#peek() !== ",") break;
      this.#at += 1;
    }
    if (this.#peek() === "}") this.#at += 1;
    return result;
  }

  #list(): unknown[] {
    const result: unknown[] = [];
    this.#at += 1;
    while (this.#peek() !== "" && this.#peek() !== "]") {
      const before = this.#at;
      const value = this.value();
      if (value !== undefined) result.push(value);
      if (this.#peek() === ",") this.#at += 1;
      if (this.#at === before) break;
    }
    if (this.#peek() === "]") this.#at += 1;
    return result;
  }

  #string(): string {
    const pattern = /"((?:[^"\\]|\\(?:u[0-9a-fA-F]{4}|[^u]))*)/y;
    pattern.lastIndex = this.#at;
    const inner = pattern.exec(this.#json)?.[1] ?? "";
    this.#at += 1 + inner.length;
    // The rest is the closing quote, or half an escape.
    if (this.#json[this.#at] === '"') this.#at += 1;
    else this.#at = this.#json.length;
    // biome-ignore lint/suspicious/noControlCharactersInRegex: JSON has them only escaped
    const plain = parsed(`"${inner.replace(/[\u0000-\u001f]/g, escaped)}"`);
    return typeof plain === "string" ? plain : inner;
  }

  #word(): unknown {
    const word = /[\w.+-]*/y;
    word.lastIndex = this.#at;
    const token = word.exec(this.#json)?.[0] ?? "";
    this.#at += token.length;
    // A number is complete when another character follows.
    return this.#at < this.#json.length ? parsed(token) : undefined;
  }
}

function escaped(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
}
