/** Idempotency keys: a request with the same key is carried out once, however often it is sent. */

import { readStored, writeStored } from "../reactive/local-storage";

/** A random key. Not `randomUUID`, which browsers offer only over HTTPS. */
export function newKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** The last request and its key; empty when none is pending. */
interface Last {
  readonly what: string;
  readonly key: string;
}

const NOTHING: Last = { what: "", key: "" };

/** The same key for the same request, so that a retry after a lost response is not a second one. */
export class IdempotencyKeys {
  readonly #name: string | null;
  #last: Last;

  /** With a name, the key is stored in this browser and survives a reload. */
  constructor(name: string | null = null) {
    this.#name = name;
    this.#last = name === null ? NOTHING : readStored(name, NOTHING);
  }

  for(what: unknown): string {
    const text = JSON.stringify(what);
    if (text !== this.#last.what) this.#set({ what: text, key: newKey() });
    return this.#last.key;
  }

  /** The request was done or dropped: the same request later gets a new key. */
  done(): void {
    if (this.#last !== NOTHING) this.#set(NOTHING);
  }

  #set(last: Last): void {
    this.#last = last;
    if (this.#name !== null) writeStored(this.#name, last, NOTHING);
  }
}
