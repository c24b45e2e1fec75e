/** The list of chats: fetched by page, kept up to date by one stream. */

import { Line } from "../api/event-stream";
import { newKey } from "../api/idempotency-key";
import { Problem } from "../api/problem";
import { call } from "../api/request";
import { isStillIn } from "../api/session";
import type { Chat, ListEvent, Prompt, Status } from "../api/types";
import { removeAllStored } from "../reactive/local-storage";
import { Store } from "../reactive/store";
import { sendInBackground } from "./background-sender";
import { type Choice, changeChat, deleteChat } from "./open-chat";
import { PREFIX } from "./outbox";

export interface Chats {
  /** All that are known: also archived ones, and those that other chats started. */
  readonly byId: ReadonlyMap<string, Chat>;
  /** Older ones are read from here on; null when all are here. */
  readonly next: string | null;
  readonly is: "reading" | "rest" | "failed";
  readonly problem: Problem | null;
}

/** Which of them are read. */
export interface Wanted {
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
  readonly line = new Line<ListEvent>({
    path: "/api/v1/stream",
    take: (events) => this.#take(events),
    mayRetry: isStillIn,
    // Pages go by when a chat was begun. So it is also told which have changed since yesterday.
    from: () => String((Date.now() - DAY) * 1000),
  });
  readonly #known = new Known();
  #wanted: Wanted = {};
  /** Of the last page that was asked for. What comes from one before it moves nothing. */
  #asked = 0;
  /** The id down to which the list was read. */
  #reach: string | null = null;
  #stop: (() => void) | null = null;
  #unsent: (() => void) | null = null;

  open(): void {
    this.#stop ??= this.#follow();
    this.#unsent ??= sendInBackground(this.line.state);
    this.line.open();
    void this.read();
  }

  close(): void {
    this.#stop?.();
    this.#stop = null;
    this.#unsent?.();
    this.#unsent = null;
    this.line.close();
  }

  /** Who was away for long is not told of all that was deleted: so it is read again. */
  #follow(): () => void {
    let wasAway = false;
    return this.line.state.subscribe(() => {
      const now = this.line.state.get();
      if (now.is === "open" && wasAway) void this.read();
      wasAway = now.is === "broken" || (now.is !== "open" && wasAway);
    });
  }

  // --- reading ---

  /** Other ones from now on. Those that are known stay known. */
  show(wanted: Wanted): void {
    if (JSON.stringify(wanted) === JSON.stringify(this.#wanted)) return;
    this.#wanted = wanted;
    this.#reach = null;
    this.chats.change((before) => ({ ...before, next: null }));
    void this.read();
  }

  /** The newest, as far down as was read before, and those that are pinned however old they are. */
  async read(): Promise<void> {
    const wanted = this.#wanted;
    const since = this.#known.now;
    await this.#ask(async () => {
      const pinned = call("GET /chats", {
        query: { pinned: true, archived: wanted.archived ?? false, limit: LARGEST_PAGE },
      });
      const [read, { chats }] = await Promise.all([readDownTo(wanted, this.#reach), pinned]);
      this.#known.answer([...chats, ...read.chats], since);
      if (isPlain(wanted)) this.#known.miss(missing(this.#known.all, read, chats), since);
      return read;
    });
  }

  async readMore(): Promise<void> {
    const { next, is } = this.chats.get();
    if (next === null || is === "reading") return;
    const query = { ...this.#wanted, cursor: next, limit: PAGE };
    const since = this.#known.now;
    await this.#ask(async () => {
      const page = await call("GET /chats", { query });
      this.#known.answer(page.chats, since);
      return page;
    });
  }

  /** After a failure, from where it was. */
  async retry(): Promise<void> {
    await (this.chats.get().next === null ? this.read() : this.readMore());
  }

  async #ask(what: () => Promise<Read>): Promise<void> {
    this.#asked += 1;
    const asked = this.#asked;
    this.chats.change((before) => ({ ...before, is: "reading", problem: null }));
    try {
      const { chats, next } = await what();
      if (asked === this.#asked) {
        this.#reach = chats.at(-1)?.id ?? this.#reach;
        this.chats.change((before) => ({ ...before, next: next ?? null, is: "rest" }));
      }
    } catch (error) {
      const problem = Problem.of(error);
      if (problem.status === 401) void isStillIn();
      if (asked === this.#asked) {
        this.chats.change((before) => ({ ...before, is: "failed", problem }));
      }
    }
    this.#publish();
  }

  /** One that is looked at, wherever it stands. That it is not there is said where it is looked at. */
  async know(id: string): Promise<void> {
    if (this.#known.all.has(id)) return;
    const since = this.#known.now;
    const chat = await call("GET /chats/{chat}", { path: { chat: id } }).catch(() => null);
    if (chat !== null) this.#known.answer([chat], since);
    this.#publish();
  }

  /** A chat from the response to a request, instead of the stream. */
  learn(chat: Chat): void {
    this.#known.tell({ ...this.#known.all.get(chat.id), ...chat });
    this.#publish();
  }

  // --- changing: each is seen at once, and taken back when the server refuses, with a Problem ---

  async change(id: string, change: Change): Promise<void> {
    const since = this.#known.now;
    await this.#wish(id, seenOf(change), async () => {
      const answer = await changeChat(id, change);
      this.#known.settle(answer, seenOf(change), since);
    });
  }

  async remove(id: string): Promise<void> {
    await this.#wish(id, "gone", async () => {
      await deleteChat(id);
      this.#gone(id);
    });
  }

  /** As if its last answer had not been seen. */
  async markUnread(id: string): Promise<void> {
    await this.#wish(id, { unread: true }, async () => {
      const body = { number: 0 };
      const { unread = false } = await call("PUT /chats/{chat}/read", { path: { chat: id }, body });
      // The stream says so too, a moment later: until then it must not look read again.
      this.#known.mark(id, { unread });
    });
  }

  /** `key`: idempotency key, for a request that may be retried. */
  async create(
    prompt: Prompt | null,
    agent: string | null,
    choice: Choice,
    key: string = newKey(),
  ): Promise<Chat> {
    const body = { prompt, agent, ...choice };
    const chat = await call("POST /chats", { body, key });
    this.learn(chat);
    return chat;
  }

  async #wish(id: string, wish: Wish, what: () => Promise<void>): Promise<void> {
    const fulfilled = this.#known.wish(id, wish);
    this.#publish();
    try {
      await what();
    } finally {
      fulfilled();
      this.#publish();
    }
  }

  #take(events: readonly ListEvent[]): void {
    let isVoid = false;
    for (const said of events) {
      if (said.event === "chat") this.#known.tell(said.data);
      else if (said.event === "deleted") this.#gone(said.data.id);
      else if (said.event === "reset") isVoid = true;
    }
    this.#publish();
    if (isVoid) void this.read();
  }

  /** Deleted: also removes what this browser stored for it. */
  #gone(id: string): void {
    this.#known.remove(id);
    removeAllStored(`draft.${id}`);
    removeAllStored(`${PREFIX}${id}.`);
  }

  #publish(): void {
    const byId = this.#known.seen();
    this.chats.change((before) => (before.byId === byId ? before : { ...before, byId }));
  }
}

// --- what is known, and by whom it was said ---

type Seen = Partial<Pick<Chat, "title" | "archived" | "pinned" | "model" | "effort" | "unread">>;
/** Optimistic state, before the server has confirmed it. */
type Wish = Seen | "gone";

function seenOf(change: Change): Seen {
  return Object.fromEntries(
    Object.entries(change).filter(([, value]) => value !== undefined),
  ) as Seen;
}

/**
 * The stream tells some chats twice, and an answer may be overtaken by it: the newer one stays. What
 * a chat is to its reader (read, pinned, needs_me) has no version of its own. So of two with the same
 * version, an answer yields to what was told since it was asked for.
 */
class Known {
  readonly #all = new Map<string, Chat>();
  readonly #told = new Map<string, number>();
  readonly #wishes = new Map<string, Set<Wish>>();
  #seen: ReadonlyMap<string, Chat> | null = null;
  /** How much was told so far. */
  now = 0;

  get all(): ReadonlyMap<string, Chat> {
    return this.#all;
  }

  tell(chat: Chat): void {
    this.now += 1;
    const known = this.#all.get(chat.id);
    if (known !== undefined && known.snapshot_version > chat.snapshot_version) return;
    this.#told.set(chat.id, this.now);
    this.#put(chat);
  }

  remove(id: string): void {
    this.now += 1;
    this.#told.set(id, this.now);
    this.#all.delete(id);
    this.#seen = null;
  }

  answer(chats: readonly Chat[], since: number): void {
    for (const chat of chats) {
      const known = this.#all.get(chat.id);
      if (this.#isOvertaken(chat.id, since)) {
        if (known === undefined || known.snapshot_version >= chat.snapshot_version) continue;
      }
      if (known === undefined || known.snapshot_version <= chat.snapshot_version) this.#put(chat);
    }
  }

  /** The answer to a change: of what was told meanwhile it overrules what was changed. */
  settle(chat: Chat, change: Seen, since: number): void {
    const known = this.#all.get(chat.id);
    if (known === undefined || known.snapshot_version > chat.snapshot_version) return;
    const overtaken =
      this.#isOvertaken(chat.id, since) && known.snapshot_version === chat.snapshot_version;
    this.#put(overtaken ? { ...known, ...change } : chat);
  }

  /** The answer to a change of what a chat is to its reader. */
  mark(id: string, change: Seen): void {
    const known = this.#all.get(id);
    if (known !== undefined) this.#put({ ...known, ...change });
  }

  /** They are not where an answer would have had them. */
  miss(ids: readonly string[], since: number): void {
    for (const id of ids) if (!this.#isOvertaken(id, since)) this.remove(id);
  }

  /** Seen from now on. What it gives takes the wish back, fulfilled or not. */
  wish(id: string, wish: Wish): () => void {
    const wishes = this.#wishes.get(id) ?? new Set();
    this.#wishes.set(id, wishes.add(wish));
    this.#seen = null;
    return () => {
      wishes.delete(wish);
      if (wishes.size === 0 && this.#wishes.get(id) === wishes) this.#wishes.delete(id);
      this.#seen = null;
    };
  }

  /** The same one until something changes. */
  seen(): ReadonlyMap<string, Chat> {
    if (this.#seen !== null) return this.#seen;
    const seen = new Map(this.#all);
    for (const [id, wishes] of this.#wishes) {
      let chat = seen.get(id);
      for (const wish of wishes) {
        if (wish === "gone") chat = undefined;
        else if (chat !== undefined) chat = { ...chat, ...wish };
      }
      if (chat === undefined) seen.delete(id);
      else seen.set(id, chat);
    }
    this.#seen = seen;
    return seen;
  }

  #isOvertaken(id: string, since: number): boolean {
    return (this.#told.get(id) ?? 0) > since;
  }

  #put(chat: Chat): void {
    this.#all.set(chat.id, chat);
    this.#seen = null;
  }
}

// --- pages ---

interface Read {
  readonly chats: readonly Chat[];
  readonly next?: string | null;
}

function isPlain(wanted: Wanted): boolean {
  return !wanted.archived && wanted.status === undefined && wanted.agent === undefined;
}

async function readDownTo(wanted: Wanted, reach: string | null): Promise<Read> {
  const limit = reach === null ? PAGE : LARGEST_PAGE;
  let page = await call("GET /chats", { query: { ...wanted, limit } });
  const chats = [...page.chats];
  while (reach !== null && page.next !== null && (chats.at(-1)?.id ?? "") > reach) {
    page = await call("GET /chats", { query: { ...wanted, cursor: page.next, limit } });
    chats.push(...page.chats);
  }
  return { chats, next: page.next };
}

/** Those that ought to be among what was read, and are not: deleted, put away, or not shared any more. */
function missing(
  known: ReadonlyMap<string, Chat>,
  read: Read,
  pinned: readonly Chat[],
): readonly string[] {
  const there = new Set([...read.chats, ...pinned].map(({ id }) => id));
  const last = read.next == null ? "" : (read.chats.at(-1)?.id ?? "");
  return [...known.values()]
    .filter(({ id, archived }) => id >= last && !archived && !there.has(id))
    .filter(({ parent_id, mine }) => parent_id === null || mine === false)
    .map(({ id }) => id);
}
