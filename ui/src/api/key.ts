/** Under which a request is carried out once, however often it is sent. */

import { keep, kept } from "../state/kept";

/** Also where the page was not asked for by HTTPS: there the browser makes no UUID. */
export function newKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Of what was last asked for; empty when nothing is open. */
interface Last {
  readonly what: string;
  readonly key: string;
}

const NOTHING: Last = { what: "", key: "" };

/** The same key for the same thing, so that it is not done twice when nobody heard the answer. */
export class Keys {
  readonly #name: string | null;
  #last: Last;

  /** With a name it is kept in this browser, for whoever asks again after a reload. */
  constructor(name: string | null = null) {
    this.#name = name;
    this.#last = name === null ? NOTHING : kept(name, NOTHING);
  }

  for(what: unknown): string {
    const text = JSON.stringify(what);
    if (text !== this.#last.what) this.#set({ what: text, key: newKey() });
    return this.#last.key;
  }

  /** It was done, or nobody wants it any more: the same once more is another one. */
  done(): void {
    if (this.#last !== NOTHING) this.#set(NOTHING);
  }

  #set(last: Last): void {
    this.#last = last;
    if (this.#name !== null) keep(this.#name, last, NOTHING);
  }
}
