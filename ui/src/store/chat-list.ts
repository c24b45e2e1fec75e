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
  /** All that are known: also archived ones, and those that other chats started. */
  readonly byId: ReadonlyMap<string, Chat>;
  /** Older ones are read from here on; null when all are here. */
  readonly next: string | null;
  readonly is: "reading" | "rest" | "failed";
  readonly problem: Problem | null;
}

/** Which of them are read. */
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
    // Pages go by when a chat was begun. So it is also told which have changed since yesterday.
    from: () => String((Date.now() - DAY) * 1000),
  });
  readonly #cache = new ChatCache();
  #query: ListQuery = {};
  /** Of the last page that was asked for. What comes from one before it moves nothing. */
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

  /** Who was away for long is not told of all that was deleted: so it is read again. */
  #reloadAfterOutage(): () => void {
    let wasAway = false;
    return this.stream.state.subscribe(() => {
      const now = this.stream.state.get();
      if (now.is === "open" && wasAway) void this.read();
      wasAway = now.is === "broken" || (now.is !== "open" && wasAway);
    });
  }

  // --- reading ---

  /** Other ones from now on. Those that are known stay known. */
  setQuery(query: ListQuery): void {
    if (JSON.stringify(query) === JSON.stringify(this.#query)) return;
    this.#query = query;
    this.#loadedDownTo = null;
    this.chats.change((before) => ({ ...before, next: null }));
    void this.read();
  }

  /** The newest, as far down as was read before, and those that are pinned however old they are. */
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

  /** After a failure, from where it was. */
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

  /** One that is looked at, wherever it stands. That it is not there is said where it is looked at. */
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

  // --- changing: each is seen at once, and taken back when the server refuses, with a Problem ---

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

  /** As if its last answer had not been seen. */
  async markUnread(id: string): Promise<void> {
    await this.#optimistically(id, { unread: true }, async () => {
      const body = { number: 0 };
      const { unread = false } = await call("PUT /chats/{chat}/read", { path: { chat: id }, body });
      // The stream says so too, a moment later: until then it must not look read again.
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

// --- what is known, and by whom it was said ---

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
 * The stream tells some chats twice, and an answer may be overtaken by it: the newer one stays. What
 * a chat is to its reader (read, pinned, needs_me) has no version of its own. So of two with the same
 * version, an answer yields to what was told since it was asked for.
 */
class ChatCache {
  readonly #all = new Map<string, Chat>();
  readonly #eventTimes = new Map<string, number>();
  readonly #optimistic = new Map<string, Set<Optimistic>>();
  #view: ReadonlyMap<string, Chat> | null = null;
  /** How much was told so far. */
  eventCount = 0;

  get all(): ReadonlyMap<string, Chat> {
    return this.#all;
  }

  applyEvent(chat: Chat): void {
    this.eventCount += 1;
    const known = this.#all.get(chat.id);
    if (known !== undefined && known.snapshot_version > chat.snapshot_version) return;
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
      const known = this.#all.get(chat.id);
      if (this.#isOvertaken(chat.id, since)) {
        if (known === undefined || known.snapshot_version >= chat.snapshot_version) continue;
      }
      if (known === undefined || known.snapshot_version <= chat.snapshot_version) this.#put(chat);
    }
  }

  /** The answer to a change: of what was told meanwhile it overrules what was changed. */
  applyChange(chat: Chat, change: ChatPatch, since: number): void {
    const known = this.#all.get(chat.id);
    if (known === undefined || known.snapshot_version > chat.snapshot_version) return;
    const overtaken =
      this.#isOvertaken(chat.id, since) && known.snapshot_version === chat.snapshot_version;
    this.#put(overtaken ? { ...known, ...change } : chat);
  }

  /** The answer to a change of what a chat is to its reader. */
  patch(id: string, change: ChatPatch): void {
    const known = this.#all.get(id);
    if (known !== undefined) this.#put({ ...known, ...change });
  }

  /** They are not where an answer would have had them. */
  removeMissing(ids: readonly string[], since: number): void {
    for (const id of ids) if (!this.#isOvertaken(id, since)) this.remove(id);
  }

  /** Seen from now on. What it gives takes the wish back, fulfilled or not. */
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

  /** The same one until something changes. */
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

/** Those that ought to be among what was read, and are not: deleted, put away, or not shared any more. */
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
