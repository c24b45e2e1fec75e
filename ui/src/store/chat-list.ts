/** The list of chats: fetched by page, kept up to date by one stream. */

import { EventStream } from "../api/event-stream";
import { newKey } from "../api/idempotency-key";
import { Problem } from "../api/problem";
import { call } from "../api/request";
import { isStillSignedIn } from "../api/session";
import type { Chat, ListEvent, Prompt, Status } from "../api/types";
import { removeAllStored } from "../reactive/local-storage";
import { Store } from "../reactive/store";
import { sendInBackground } from "./background-sender";
import { changeChat, deleteChat, type ModelChoice } from "./open-chat";
import { OUTBOX_PREFIX } from "./outbox";

export interface Chats {
  /** All loaded chats, including archived ones and those of subagents. */
  readonly byId: ReadonlyMap<string, Chat>;
  /** Cursor for older chats; null if all are loaded. */
  readonly next: string | null;
  readonly is: "reading" | "rest" | "failed";
  readonly problem: Problem | null;
}

/** Which chats are fetched. */
export interface ListQuery {
  readonly archived?: boolean;
  readonly status?: Status;
  readonly agent?: string;
}

export type Change = Parameters<typeof changeChat>[1];

const PAGE = 50;
const LARGEST_PAGE = 200;
const DAY = 86_400_000;
const EMPTY: Chats = { byId: new Map(), next: null, is: "reading", problem: null };

export class ChatList {
  readonly chats = new Store<Chats>(EMPTY);
  readonly stream = new EventStream<ListEvent>({
    path: "/api/v1/stream",
    onEvents: (events) => this.#apply(events),
    mayRetry: isStillSignedIn,
    // Pages are ordered by creation: the stream adds what has changed since yesterday.
    from: () => String((Date.now() - DAY) * 1000),
  });
  readonly #cache = new ChatCache();
  #query: ListQuery = {};
  /** Number of the last page request. Responses to earlier ones do not move the cursor. */
  #lastRequest = 0;
  /** The id down to which the list was read. */
  #loadedDownTo: string | null = null;
  #unsubscribe: (() => void) | null = null;
  #stopSending: (() => void) | null = null;

  open(): void {
    this.#unsubscribe ??= this.#reloadAfterOutage();
    this.#stopSending ??= sendInBackground(this.stream.state);
    this.stream.open();
    void this.read();
  }

  close(): void {
    this.#unsubscribe?.();
    this.#unsubscribe = null;
    this.#stopSending?.();
    this.#stopSending = null;
    this.stream.close();
  }

  /** Reloads after an outage: a stream that was away for long does not report all deletions. */
  #reloadAfterOutage(): () => void {
    let wasAway = false;
    return this.stream.state.subscribe(() => {
      const now = this.stream.state.get();
      if (now.is === "open" && wasAway) void this.read();
      wasAway = now.is === "broken" || (now.is !== "open" && wasAway);
    });
  }

  // --- reading ---

  /** Changes the query. Loaded chats stay. */
  setQuery(query: ListQuery): void {
    if (JSON.stringify(query) === JSON.stringify(this.#query)) return;
    this.#query = query;
    this.#loadedDownTo = null;
    this.chats.change((before) => ({ ...before, next: null }));
    void this.read();
  }

  /** Fetches the newest chats, as far down as before, and all pinned ones. */
  async read(): Promise<void> {
    const query = this.#query;
    const since = this.#cache.eventCount;
    await this.#request(async () => {
      const pinned = call("GET /chats", {
        query: { pinned: true, archived: query.archived ?? false, limit: LARGEST_PAGE },
      });
      const [read, { chats }] = await Promise.all([readDownTo(query, this.#loadedDownTo), pinned]);
      this.#cache.applyResponse([...chats, ...read.chats], since);
      if (isUnfiltered(query))
        this.#cache.removeMissing(missingFrom(this.#cache.all, read, chats), since);
      return read;
    });
  }

  async readMore(): Promise<void> {
    const { next, is } = this.chats.get();
    if (next === null || is === "reading") return;
    const query = { ...this.#query, cursor: next, limit: PAGE };
    const since = this.#cache.eventCount;
    await this.#request(async () => {
      const page = await call("GET /chats", { query });
      this.#cache.applyResponse(page.chats, since);
      return page;
    });
  }

  /** Retries the request that failed. */
  async retry(): Promise<void> {
    await (this.chats.get().next === null ? this.read() : this.readMore());
  }

  async #request(what: () => Promise<ChatPage>): Promise<void> {
    this.#lastRequest += 1;
    const request = this.#lastRequest;
    this.chats.change((before) => ({ ...before, is: "reading", problem: null }));
    try {
      const { chats, next } = await what();
      if (request === this.#lastRequest) {
        this.#loadedDownTo = chats.at(-1)?.id ?? this.#loadedDownTo;
        this.chats.change((before) => ({ ...before, next: next ?? null, is: "rest" }));
      }
    } catch (error) {
      const problem = Problem.of(error);
      if (problem.status === 401) void isStillSignedIn();
      if (request === this.#lastRequest) {
        this.chats.change((before) => ({ ...before, is: "failed", problem }));
      }
    }
    this.#publish();
  }

  /** Loads the open chat if it is not in the list. Its screen reports errors. */
  async ensureLoaded(id: string): Promise<void> {
    if (this.#cache.all.has(id)) return;
    const since = this.#cache.eventCount;
    const chat = await call("GET /chats/{chat}", { path: { chat: id } }).catch(() => null);
    if (chat !== null) this.#cache.applyResponse([chat], since);
    this.#publish();
  }

  /** A chat from the response to a request, instead of the stream. */
  add(chat: Chat): void {
    this.#cache.applyEvent({ ...this.#cache.all.get(chat.id), ...chat });
    this.#publish();
  }

  // --- changes: shown at once, and undone with a Problem when the server refuses ---

  async change(id: string, change: Change): Promise<void> {
    const since = this.#cache.eventCount;
    await this.#optimistically(id, patchOf(change), async () => {
      const answer = await changeChat(id, change);
      this.#cache.applyChange(answer, patchOf(change), since);
    });
  }

  async remove(id: string): Promise<void> {
    await this.#optimistically(id, "gone", async () => {
      await deleteChat(id);
      this.#forget(id);
    });
  }

  /** Marks a chat as unread. */
  async markUnread(id: string): Promise<void> {
    await this.#optimistically(id, { unread: true }, async () => {
      const body = { number: 0 };
      const { unread = false } = await call("PUT /chats/{chat}/read", { path: { chat: id }, body });
      // The stream confirms it a moment later: until then it must not appear read.
      this.#cache.patch(id, { unread });
    });
  }

  /** `key`: idempotency key, for a request that may be retried. */
  async create(
    prompt: Prompt | null,
    agent: string | null,
    choice: ModelChoice,
    key: string = newKey(),
  ): Promise<Chat> {
    const body = { prompt, agent, ...choice };
    const chat = await call("POST /chats", { body, key });
    this.add(chat);
    return chat;
  }

  async #optimistically(
    id: string,
    change: Optimistic,
    request: () => Promise<void>,
  ): Promise<void> {
    const undo = this.#cache.addOptimistic(id, change);
    this.#publish();
    try {
      await request();
    } finally {
      undo();
      this.#publish();
    }
  }

  #apply(events: readonly ListEvent[]): void {
    let isReset = false;
    for (const event of events) {
      if (event.event === "chat") this.#cache.applyEvent(event.data);
      else if (event.event === "deleted") this.#forget(event.data.id);
      else if (event.event === "reset") isReset = true;
    }
    this.#publish();
    if (isReset) void this.read();
  }

  /** Deleted: also removes what this browser stored for it. */
  #forget(id: string): void {
    this.#cache.remove(id);
    removeAllStored(`draft.${id}`);
    removeAllStored(`${OUTBOX_PREFIX}${id}.`);
  }

  #publish(): void {
    const byId = this.#cache.view();
    this.chats.change((before) => (before.byId === byId ? before : { ...before, byId }));
  }
}

// --- merging responses, stream events and optimistic changes ---

type ChatPatch = Partial<
  Pick<Chat, "title" | "archived" | "pinned" | "model" | "effort" | "unread">
>;
/** Optimistic state, before the server has confirmed it. */
type Optimistic = ChatPatch | "gone";

function patchOf(change: Change): ChatPatch {
  return Object.fromEntries(
    Object.entries(change).filter(([, value]) => value !== undefined),
  ) as ChatPatch;
}

/**
 * All loaded chats, merged from responses and stream events. The newer version of a chat wins. Its
 * reader state (read, pinned, needs_me) has no version: of two with the same version, a response
 * yields to events received since its request.
 */
class ChatCache {
  readonly #all = new Map<string, Chat>();
  readonly #eventTimes = new Map<string, number>();
  readonly #optimistic = new Map<string, Set<Optimistic>>();
  #view: ReadonlyMap<string, Chat> | null = null;
  /** Number of stream events so far. */
  eventCount = 0;

  get all(): ReadonlyMap<string, Chat> {
    return this.#all;
  }

  applyEvent(chat: Chat): void {
    this.eventCount += 1;
    const current = this.#all.get(chat.id);
    if (current !== undefined && current.snapshot_version > chat.snapshot_version) return;
    this.#eventTimes.set(chat.id, this.eventCount);
    this.#put(chat);
  }

  remove(id: string): void {
    this.eventCount += 1;
    this.#eventTimes.set(id, this.eventCount);
    this.#all.delete(id);
    this.#view = null;
  }

  applyResponse(chats: readonly Chat[], since: number): void {
    for (const chat of chats) {
      const current = this.#all.get(chat.id);
      if (this.#isOvertaken(chat.id, since)) {
        if (current === undefined || current.snapshot_version >= chat.snapshot_version) continue;
      }
      if (current === undefined || current.snapshot_version <= chat.snapshot_version)
        this.#put(chat);
    }
  }

  /** Applies the response to a change. It wins over newer events only for the changed fields. */
  applyChange(chat: Chat, change: ChatPatch, since: number): void {
    const current = this.#all.get(chat.id);
    if (current === undefined || current.snapshot_version > chat.snapshot_version) return;
    const overtaken =
      this.#isOvertaken(chat.id, since) && current.snapshot_version === chat.snapshot_version;
    this.#put(overtaken ? { ...current, ...change } : chat);
  }

  /** Applies a confirmed change of reader state, which has no version. */
  patch(id: string, change: ChatPatch): void {
    const current = this.#all.get(id);
    if (current !== undefined) this.#put({ ...current, ...change });
  }

  /** Removes chats that a response should have contained. */
  removeMissing(ids: readonly string[], since: number): void {
    for (const id of ids) if (!this.#isOvertaken(id, since)) this.remove(id);
  }

  /** Adds an optimistic change; returns a function that removes it. */
  addOptimistic(id: string, wish: Optimistic): () => void {
    const wishes = this.#optimistic.get(id) ?? new Set();
    this.#optimistic.set(id, wishes.add(wish));
    this.#view = null;
    return () => {
      wishes.delete(wish);
      if (wishes.size === 0 && this.#optimistic.get(id) === wishes) this.#optimistic.delete(id);
      this.#view = null;
    };
  }

  /** All chats with optimistic changes. The same map until something changes. */
  view(): ReadonlyMap<string, Chat> {
    if (this.#view !== null) return this.#view;
    const view = new Map(this.#all);
    for (const [id, wishes] of this.#optimistic) {
      let chat = view.get(id);
      for (const wish of wishes) {
        if (wish === "gone") chat = undefined;
        else if (chat !== undefined) chat = { ...chat, ...wish };
      }
      if (chat === undefined) view.delete(id);
      else view.set(id, chat);
    }
    this.#view = view;
    return view;
  }

  #isOvertaken(id: string, since: number): boolean {
    return (this.#eventTimes.get(id) ?? 0) > since;
  }

  #put(chat: Chat): void {
    this.#all.set(chat.id, chat);
    this.#view = null;
  }
}

// --- pages ---

interface ChatPage {
  readonly chats: readonly Chat[];
  readonly next?: string | null;
}

function isUnfiltered(query: ListQuery): boolean {
  return !query.archived && query.status === undefined && query.agent === undefined;
}

async function readDownTo(query: ListQuery, lastId: string | null): Promise<ChatPage> {
  const limit = lastId === null ? PAGE : LARGEST_PAGE;
  let page = await call("GET /chats", { query: { ...query, limit } });
  const chats = [...page.chats];
  while (lastId !== null && page.next !== null && (chats.at(-1)?.id ?? "") > lastId) {
    page = await call("GET /chats", { query: { ...query, cursor: page.next, limit } });
    chats.push(...page.chats);
  }
  return { chats, next: page.next };
}

/** Loaded chats missing from a response: deleted, archived, or no longer shared. */
function missingFrom(
  known: ReadonlyMap<string, Chat>,
  read: ChatPage,
  pinned: readonly Chat[],
): readonly string[] {
  const present = new Set([...read.chats, ...pinned].map(({ id }) => id));
  const last = read.next == null ? "" : (read.chats.at(-1)?.id ?? "");
  return [...known.values()]
    .filter(({ id, archived }) => id >= last && !archived && !present.has(id))
    .filter(({ parent_id, mine }) => parent_id === null || mine === false)
    .map(({ id }) => id);
}
