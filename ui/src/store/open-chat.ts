/** An open chat: its transcript, and every operation on it. */

import { EventStream } from "../api/event-stream";
import { IdempotencyKeys } from "../api/idempotency-key";
import { Problem } from "../api/problem";
import { call } from "../api/request";
import type {
  BudgetReport,
  Chat,
  ChatEvent,
  Deliver,
  Effort,
  Prompt,
  Queued,
  Snapshot,
  Spent,
  Stored,
} from "../api/types";
import { Store } from "../reactive/store";
import { chatClosed, chatOpened } from "./background-sender";
import { Outbox } from "./outbox";
import { applyEvents, EMPTY, type Transcript, withEarlier } from "./transcript";

const PAGE = 100;

/** Model and effort for one message, if not the chat's. */
export interface ModelChoice {
  readonly model?: string;
  readonly effort?: Effort;
}

/** State of loading earlier messages. */
export type Earlier = { readonly is: "rest" } | { readonly is: "reading" } | Failed;
export interface Failed {
  readonly is: "failed";
  readonly problem: Problem;
}

/** The message that is being edited in the composer. */
export type Editing =
  | { readonly is: "message"; readonly stored: Stored }
  | { readonly is: "queued"; readonly queued: Queued };

const onScreen = new Map<string, OpenChat>();

/** The open chat with an id, which may be newer than the one an operation started with. */
export function chatOnScreen(id: string): OpenChat | null {
  return onScreen.get(id) ?? null;
}

export class OpenChat {
  readonly id: string;
  readonly transcript = new Store<Transcript>(EMPTY);
  readonly earlier = new Store<Earlier>({ is: "rest" });
  /** Number of edits that superseded messages. */
  #edits = 0;
  /** Set when the chat does not exist or is not visible. */
  readonly notFound = new Store<Problem | null>(null);
  /** This page has requested an interrupt that has not taken effect yet. */
  readonly stopping = new Store(false);
  /** Version of the chat in the response to the interrupt. */
  #stopVersion: number | null = null;
  readonly editing = new Store<Editing | null>(null);
  /** Idempotency keys of requests that are retried after a lost response. */
  readonly #keys = new IdempotencyKeys();
  readonly outbox: Outbox;
  readonly stream: EventStream<ChatEvent>;

  constructor(id: string) {
    this.id = id;
    this.outbox = new Outbox(id);
    this.stream = new EventStream<ChatEvent>({
      path: `/api/v1/chats/${encodeURIComponent(id)}/stream`,
      onEvents: (events) => this.#apply(events),
      mayRetry: () => this.#exists(),
    });
  }

  open(): void {
    onScreen.set(this.id, this);
    chatOpened(this.id);
    this.stream.open();
    this.outbox.open(this.stream.state);
  }

  close(): void {
    if (onScreen.get(this.id) === this) onScreen.delete(this.id);
    this.stream.close();
    this.outbox.close();
    chatClosed(this.id);
  }

  #apply(events: readonly ChatEvent[]): void {
    const before = this.transcript.get();
    const transcript = applyEvents(before, events, Date.now());
    this.#edits += events.filter(({ event }) => event === "superseded").length;
    this.transcript.set(transcript);
    this.outbox.reconcile(transcript);
    this.#clearStopping();
  }

  /** Clears `stopping`, also if the chat already runs a queued message. */
  #clearStopping(): void {
    const { chat } = this.transcript.get();
    if (chat === null || !this.stopping.get()) return;
    const hasContinued = this.#stopVersion !== null && chat.snapshot_version > this.#stopVersion;
    if (chat.status !== "running" || hasContinued) this.stopping.set(false);
  }

  async #exists(): Promise<boolean> {
    try {
      await call("GET /chats/{chat}", { path: { chat: this.id } });
    } catch (error) {
      const problem = Problem.of(error);
      if (!problem.isTransient) this.notFound.set(problem);
      return problem.isTransient;
    }
    return true;
  }

  async readEarlier(): Promise<void> {
    const before = this.transcript.get().moreBefore;
    if (before === null || this.earlier.get().is === "reading") return;
    this.earlier.set({ is: "reading" });
    try {
      const page = await this.#pageBefore(before);
      // After a reset of the history this page is outdated.
      if (this.transcript.get().moreBefore === before) {
        this.transcript.change((now) => withEarlier(now, page.messages, page.next));
      }
      this.earlier.set({ is: "rest" });
    } catch (error) {
      this.earlier.set({ is: "failed", problem: Problem.of(error) });
    }
  }

  /** A page of earlier messages. Fetched again if an edit superseded messages meanwhile. */
  async #pageBefore(before: number) {
    for (;;) {
      const edits = this.#edits;
      const page = await call("GET /chats/{chat}/messages", {
        path: { chat: this.id },
        query: { before, limit: PAGE },
      });
      if (edits === this.#edits) return page;
    }
  }

  // --- operations: each throws a Problem when the server refuses ---

  send(prompt: Prompt, deliver: Deliver, choice: ModelChoice = {}): void {
    this.outbox.put(prompt, deliver, choice);
  }

  async interrupt(): Promise<void> {
    this.#stopVersion = null;
    this.stopping.set(true);
    try {
      const snapshot = await call("POST /chats/{chat}/interrupt", { path: { chat: this.id } });
      this.#stopVersion = snapshot.snapshot_version;
      this.#clearStopping();
    } catch (error) {
      this.stopping.set(false);
      throw error;
    }
  }

  async retry(): Promise<void> {
    await call("POST /chats/{chat}/retry", { path: { chat: this.id } });
  }

  /** Continues a turn that ended at a limit. */
  async resume(): Promise<void> {
    await call("POST /chats/{chat}/resume", { path: { chat: this.id } });
  }

  /** Has a model write another title. */
  async retitle(): Promise<void> {
    await call("POST /chats/{chat}/title", { path: { chat: this.id } });
  }

  async compact(): Promise<void> {
    await call("POST /chats/{chat}/compact", { path: { chat: this.id } });
  }

  async edit(number: number, prompt: Prompt, choice: ModelChoice = {}): Promise<void> {
    const body = { prompt, ...choice };
    await call("PATCH /chats/{chat}/messages/{number}", {
      path: { chat: this.id, number },
      body,
      key: this.#keys.for(["edit", number, body]),
    });
    this.#keys.done();
  }

  /** Forks the chat at a message, optionally with another prompt instead of it. */
  async fork(number: number, prompt?: Prompt): Promise<Snapshot> {
    const body = prompt === undefined ? { number } : { number, prompt };
    const key = this.#keys.for(["fork", body]);
    const forked = await call("POST /chats/{chat}/fork", { path: { chat: this.id }, body, key });
    this.#keys.done();
    return forked;
  }

  async editQueued(id: string, prompt: Prompt): Promise<void> {
    await call("PATCH /chats/{chat}/queue/{id}", {
      path: { chat: this.id, id },
      body: { prompt },
    });
  }

  async reorder(ids: readonly string[]): Promise<void> {
    await call("PUT /chats/{chat}/queue", { path: { chat: this.id }, body: { order: [...ids] } });
  }

  async removeQueued(id: string): Promise<void> {
    await call("DELETE /chats/{chat}/queue/{id}", { path: { chat: this.id, id } });
  }

  /** Interrupts the turn and delivers a queued message now. */
  async promote(id: string): Promise<void> {
    await call("POST /chats/{chat}/queue/{id}/promote", { path: { chat: this.id, id } });
  }

  async usage(tree: boolean): Promise<Spent> {
    return await call("GET /chats/{chat}/usage", { path: { chat: this.id }, query: { tree } });
  }

  async budget(): Promise<BudgetReport> {
    return await call("GET /chats/{chat}/budget", { path: { chat: this.id } });
  }

  async readUpTo(number: number): Promise<void> {
    await call("PUT /chats/{chat}/read", { path: { chat: this.id }, body: { number } });
  }
}

/** Changes properties of a chat, open or not. */
export async function changeChat(
  id: string,
  change: {
    title?: string | null;
    archived?: boolean;
    pinned?: boolean;
    model?: string | null;
    effort?: Effort | null;
  },
): Promise<Chat> {
  return await call("PATCH /chats/{chat}", { path: { chat: id }, body: change });
}

export async function deleteChat(id: string): Promise<void> {
  await call("DELETE /chats/{chat}", { path: { chat: id } });
}
