/** Under which a request is carried out once, however often it is sent. */

/** Also where the page was not asked for by HTTPS: there the browser makes no UUID. */
export function newKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** The same key for the same thing, so that it is not done twice when nobody heard the answer. */
export class Keys {
  #what = "";
  #key = "";

  for(what: unknown): string {
    const text = JSON.stringify(what);
    if (text !== this.#what) {
      this.#what = text;
      this.#key = newKey();
    }
    return this.#key;
  }

  /** It was done: the same once more is another one. */
  done(): void {
    this.#what = "";
  }
}
