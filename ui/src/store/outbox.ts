/**
 * The outbox: messages sent from this page that the chat does not show yet.
 *
 * A message is stored, also across a reload, until the chat's stream shows it. It is sent with one
 * idempotency key, so that it arrives once however often it is sent. Each has its own storage name,
 * so that two tabs do not overwrite each other's messages.
 */

import type { StreamState } from "../api/event-stream";
import { newKey } from "../api/idempotency-key";
import { Problem } from "../api/problem";
import { call } from "../api/request";
import { isStillSignedIn } from "../api/session";
import type { Deliver, Effort, Prompt } from "../api/types";
import { readStored, removeStored, storedNames, writeStored } from "../reactive/local-storage";
import { sameItems } from "../reactive/same-items";
import { Store } from "../reactive/store";
import { type ChatPosition, isInChat, notYetShown, positionNow } from "./match-sent";
import { EMPTY, type Transcript } from "./transcript";

export interface Unsent {
  /** Idempotency key. */
  readonly key: string;
  readonly prompt: Prompt;
  readonly deliver: Deliver;
  readonly model?: string;
  readonly effort?: Effort;
  readonly at: number;
  readonly before?: ChatPosition;
  /** Number in the history, or id in the queue, once the server has confirmed it. */
  readonly number?: number;
  readonly queued?: string;
  /** Version of the chat after the message entered its queue. */
  readonly version?: number;
  /** Why the server refused it. */
  readonly refused?: string;
}

/** Prefix of storage names of unsent messages; the chat and the key follow. */
export const OUTBOX_PREFIX = "outbox.";
const FIRST_WAIT = 1_000;
const MAX_WAIT = 15_000;

export class Outbox {
  /** Messages that the chat does not show yet, in sending order. */
  readonly unsent: Store<readonly Unsent[]>;
  readonly #chat: string;
  readonly #name: string;
  #all: readonly Unsent[];
  /** Keys of the messages that are in the storage. */
  readonly #storedKeys: Set<string>;
  #transcript: Transcript = EMPTY;
  #sending = false;
  /** Key of the message being sent. */
  #inFlight: string | null = null;
  #stop = new AbortController();
  #tries = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #unsubscribe: (() => void) | null = null;

  constructor(chat: string) {
    this.#chat = chat;
    this.#name = `${OUTBOX_PREFIX}${chat}.`;
    const names = storedNames(this.#name);
    const stored = names.map((name) => readStored<Unsent | null>(name, null));
    this.#all = stored.filter((one) => one !== null).sort((one, other) => one.at - other.at);
    this.#storedKeys = new Set(this.#all.map(({ key }) => key));
    this.unsent = new Store(this.#all);
  }

  open(streamState: Store<StreamState>): void {
    let wasBroken = false;
    this.#unsubscribe = streamState.subscribe(() => {
      const { is } = streamState.get();
      if (is === "broken") wasBroken = true;
      if (is !== "open") return;
      // A request over the previous connection may hang for minutes.
      if (wasBroken) this.#stop.abort();
      wasBroken = false;
      void this.#send();
    });
    void this.#send();
  }

  close(): void {
    this.#unsubscribe?.();
    this.#unsubscribe = null;
    clearTimeout(this.#timer);
  }

  /** Whether all known messages are sent. */
  get isDone(): boolean {
    return !this.#sending && this.#next() === undefined;
  }

  put(prompt: Prompt, deliver: Deliver, choice: { model?: string; effort?: Effort }): void {
    // Later than all others, also if the clock stands still.
    const at = Math.max(Date.now(), (this.#all.at(-1)?.at ?? 0) + 1);
    this.#add({ key: newKey(), prompt, deliver, ...choice, at, ...positionNow(this.#transcript) });
    void this.#send();
  }

  /** Discards a message; one in transit may still have reached the server. */
  discard(key: string): void {
    this.#drop((each) => each.key === key);
    if (this.#inFlight === key) this.#stop.abort();
  }

  /** Sends a refused message again. */
  resend(key: string): void {
    const one = this.#all.find((each) => each.key === key);
    if (one === undefined) return;
    const { refused: _, ...rest } = one;
    this.discard(key);
    // With a new key: the old one would repeat the refusal.
    this.#add({ ...rest, key: newKey(), ...positionNow(this.#transcript) });
    void this.#send();
  }

  /** Drops messages that the chat shows now. */
  reconcile(transcript: Transcript): void {
    this.#transcript = transcript;
    if (this.#all.length > 0) this.#drop((each) => isInChat(each, transcript));
  }

  /** Sends messages one after the other, so that they arrive in order. */
  async #send(): Promise<void> {
    if (this.#sending) return;
    this.#sending = true;
    clearTimeout(this.#timer);
    try {
      for (;;) {
        this.#drop((each) => this.#isDoneElsewhere(each));
        const next = this.#next();
        if (next === undefined) return;
        if (await this.#attempt(next)) this.#tries = 0;
        else return this.#tryLater();
      }
    } finally {
      this.#sending = false;
    }
  }

  /** Whether another tab has sent or discarded the message. */
  #isDoneElsewhere({ key, number, queued }: Unsent): boolean {
    const isSent = number !== undefined || queued !== undefined;
    return !isSent && this.#storedKeys.has(key) && readStored(this.#name + key, null) === null;
  }

  #tryLater(): void {
    if (this.#unsubscribe === null) return;
    const wait = Math.min(FIRST_WAIT * 2 ** this.#tries, MAX_WAIT);
    this.#tries += 1;
    this.#timer = setTimeout(() => void this.#send(), wait);
  }

  /** The first message to send, or whose place in the queue is to be confirmed. */
  #next(): Unsent | undefined {
    return this.#all.find(
      ({ refused, number, queued, version }) =>
        refused === undefined && number === undefined && (queued === undefined || !version),
    );
  }

  /** Sends or confirms a message. False: retry later. */
  async #attempt(one: Unsent): Promise<boolean> {
    this.#stop = new AbortController();
    this.#inFlight = one.key;
    try {
      this.#mark(one.key, await (one.queued === undefined ? this.#post(one) : this.#readVersion()));
    } catch (error) {
      if (this.#all.every(({ key }) => key !== one.key)) return true; // discarded meanwhile
      const problem = Problem.of(error);
      // After signing in again the user continues, also if that was in another tab.
      if (problem.status === 401) await isStillSignedIn();
      if (problem.isTransient || problem.status === 401) return false;
      if (one.queued === undefined) this.#mark(one.key, { refused: problem.message });
      else this.discard(one.key); // the chat no longer exists
    }
    return true;
  }

  async #post({ key, prompt, deliver, model, effort }: Unsent): Promise<Partial<Unsent>> {
    const { number, queued } = await call("POST /chats/{chat}/messages", {
      path: { chat: this.#chat },
      body: { prompt, deliver, ...(model ? { model } : {}), ...(effort ? { effort } : {}) },
      key,
      signal: this.#stop.signal,
    });
    return number != null ? { number } : { queued: queued ?? "" };
  }

  /** Reads the chat's version: a message may leave the queue before the stream shows it. */
  async #readVersion(): Promise<Partial<Unsent>> {
    const { signal } = this.#stop;
    const chat = await call("GET /chats/{chat}", { path: { chat: this.#chat }, signal });
    return { version: chat.snapshot_version };
  }

  #add(one: Unsent): void {
    this.#all = [...this.#all, one].sort((each, other) => each.at - other.at);
    const name = this.#name + one.key;
    writeStored<Unsent | null>(name, one, null);
    if (readStored(name, null) !== null) this.#storedKeys.add(one.key);
    this.#show();
  }

  #mark(key: string, mark: Partial<Unsent>): void {
    this.#all = this.#all.map((each) => (each.key === key ? { ...each, ...mark } : each));
    const marked = this.#all.find((each) => each.key === key);
    const name = this.#name + key;
    // Another tab may have removed it from the storage.
    if (marked !== undefined && readStored(name, null) !== null)
      writeStored<Unsent | null>(name, marked, null);
    // The stream may have been faster.
    this.#drop((each) => isInChat(each, this.#transcript));
  }

  #drop(isDone: (each: Unsent) => boolean): void {
    const done = this.#all.filter(isDone);
    for (const { key } of done) removeStored(this.#name + key);
    if (done.length > 0) this.#all = this.#all.filter((each) => !done.includes(each));
    this.#show();
  }

  #show(): void {
    const shown = notYetShown(this.#all, this.#transcript);
    if (!sameItems(shown, this.unsent.get())) this.unsent.set(shown);
  }
}
