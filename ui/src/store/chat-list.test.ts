import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { type Browser, fakeBrowser, restoreBrowser } from "../api/fake-browser";
import { session } from "../api/session";
import type { Chat } from "../api/types";
import { ChatList } from "./chat-list";

/** What a server has, asked by `fetch`. An answer can be held back. */
class Server {
  chats: Chat[] = [];
  asked: string[] = [];
  refuse: { status: number; detail: string } | null = null;
  #held: (() => void)[] | null = null;

  hold(): void {
    this.#held = [];
  }

  /** What was held back arrives as it was when it was asked for: what was asked last comes first. */
  async release(): Promise<void> {
    const held = this.#held ?? [];
    this.#held = null;
    for (const arrive of held.reverse()) {
      arrive();
      await settled();
    }
  }

  readonly fetch = async (address: string, init: RequestInit = {}): Promise<Response> => {
    const url = new URL(address, "http://test");
    const method = init.method ?? "GET";
    this.asked.push(`${method} ${url.pathname.replace("/api/v1", "")}${url.search}`);
    const answer = this.#answer(method, url, init.body as string | undefined);
    if (this.#held !== null) await new Promise<void>((go) => this.#held?.push(go));
    return answer;
  };

  #answer(method: string, url: URL, body: string | undefined): Response {
    if (this.refuse !== null) return problem(this.refuse.status, this.refuse.detail);
    const path = url.pathname.replace("/api/v1", "");
    if (path === "/me") return json({ user: "", mode: "local" });
    if (path === "/chats") return json(this.#page(url.searchParams));
    const id = path.split("/")[2] ?? "";
    const chat = this.chats.find((each) => each.id === id);
    if (chat === undefined) return problem(404, "there is no such chat");
    if (method === "DELETE") {
      this.chats = this.chats.filter((each) => each !== chat);
      return new Response(null, { status: 204 });
    }
    if (method === "PUT") return json({ read: 0, unread: true });
    if (method === "PATCH") Object.assign(chat, JSON.parse(body ?? "{}"));
    return json(chat);
  }

  #page(query: URLSearchParams): object {
    const limit = Number(query.get("limit"));
    const cursor = query.get("cursor");
    const found = this.chats
      .filter(({ archived }) => String(archived) === (query.get("archived") ?? "false"))
      .filter(({ parent_id }) => parent_id === null)
      .filter(({ pinned }) => query.get("pinned") !== "true" || pinned)
      .filter(({ status }) => (query.get("status") ?? status) === status)
      .filter(({ id }) => cursor === null || id < cursor)
      .sort((one, other) => (one.id < other.id ? 1 : -1));
    const chats = found.slice(0, limit);
    return { chats, next: found.length > limit ? chats.at(-1)?.id : null, complete: true };
  }
}

const json = (value: unknown) => new Response(JSON.stringify(value));

function problem(status: number, detail: string): Response {
  return new Response(JSON.stringify({ kind: "test", status, detail }), { status });
}

const settled = () => vi.advanceTimersByTimeAsync(20);
const idOf = (number: number) => `c${String(number).padStart(4, "0")}`;

function chatOf(number: number, more: Partial<Chat> = {}): Chat {
  const chat = { id: idOf(number), title: `Chat ${number}`, archived: false, parent_id: null };
  const marks = { pinned: false, unread: false, needs_me: false, mine: true };
  return { ...chat, ...marks, status: "idle", snapshot_version: 1, ...more } as unknown as Chat;
}

let browser: Browser;
let server: Server;
let list: ChatList;

beforeEach(() => {
  browser = fakeBrowser();
  server = new Server();
  vi.stubGlobal("fetch", server.fetch);
  list = new ChatList();
});
afterEach(() => {
  list.close();
  restoreBrowser();
});

async function opened(): Promise<void> {
  list.open();
  await settled();
  browser.last.accept();
}

async function told(chat: Chat): Promise<void> {
  browser.last.say("chat", chat, "1");
  await settled();
}

const ids = () => [...list.chats.get().byId.keys()].sort();
const titleOf = (number: number) => list.chats.get().byId.get(idOf(number))?.title;

describe("pages", () => {
  it("bring the newest first, then older ones until all are there", async () => {
    server.chats = Array.from({ length: 120 }, (_, index) => chatOf(index));
    await opened();
    expect(ids()).toHaveLength(50);
    expect(list.chats.get()).toMatchObject({ is: "rest", next: idOf(70) });
    await list.readMore();
    await list.readMore();
    expect(ids()).toHaveLength(120);
    expect(list.chats.get().next).toBeNull();
  });

  it("are not asked for twice at once", async () => {
    server.chats = Array.from({ length: 60 }, (_, index) => chatOf(index));
    await opened();
    server.asked = [];
    await Promise.all([list.readMore(), list.readMore()]);
    expect(server.asked).toHaveLength(1);
  });

  it("bring those that are pinned, however old they are", async () => {
    server.chats = Array.from({ length: 60 }, (_, index) => chatOf(index, { pinned: index === 0 }));
    await opened();
    expect(ids()).toContain(idOf(0));
    expect(list.chats.get().next).toBe(idOf(10));
  });

  it("that cannot be read say why, and are read when tried again", async () => {
    server.chats = [chatOf(1)];
    server.refuse = { status: 503, detail: "the database is away" };
    await opened();
    expect(list.chats.get().is).toBe("failed");
    expect(list.chats.get().problem?.message).toBe("the database is away");
    server.refuse = null;
    await list.retry();
    expect(ids()).toEqual([idOf(1)]);
    expect(list.chats.get().problem).toBeNull();
  });

  it("of what is wanted no more move nothing", async () => {
    server.chats = Array.from({ length: 60 }, (_, index) =>
      chatOf(index, { archived: index < 55 }),
    );
    await opened();
    server.hold();
    list.setQuery({ archived: true });
    list.setQuery({});
    await server.release();
    expect(list.chats.get()).toMatchObject({ is: "rest", next: null });
    expect(ids()).toHaveLength(55);
  });
});

describe("the stream", () => {
  it("begins a day ago: pages do not know what was changed lately", async () => {
    list.open();
    await settled();
    expect(Number(browser.last.cursor)).toBeCloseTo((Date.now() - 86_400_000) * 1000, -8);
  });

  it("tells new chats, changes and deletions", async () => {
    server.chats = [chatOf(1), chatOf(2)];
    await opened();
    await told(chatOf(3));
    await told(chatOf(1, { title: "Renamed", snapshot_version: 2 }));
    browser.last.say("deleted", { id: idOf(2) }, "2");
    await settled();
    expect(ids()).toEqual([idOf(1), idOf(3)]);
    expect(titleOf(1)).toBe("Renamed");
  });

  it("does not bring back what is older", async () => {
    await opened();
    await told(chatOf(1, { title: "New", snapshot_version: 5 }));
    await told(chatOf(1, { title: "Old", snapshot_version: 4 }));
    expect(titleOf(1)).toBe("New");
  });

  it("has the list read anew when it says so, as far as it had been read", async () => {
    server.chats = Array.from({ length: 250 }, (_, index) => chatOf(index));
    await opened();
    while (list.chats.get().next !== null) await list.readMore();
    server.chats = server.chats.filter(({ id }) => id !== idOf(3) && id !== idOf(245));
    browser.last.say("reset", {}, "9");
    await settled();
    expect(ids()).toHaveLength(248);
    expect(list.chats.get().next).toBeNull();
  });
});

describe("an answer that the stream overtook", () => {
  it("does not bring back a chat that was deleted", async () => {
    server.chats = [chatOf(1)];
    server.hold();
    list.open();
    await settled();
    browser.last.accept();
    browser.last.say("deleted", { id: idOf(1) }, "1");
    await settled();
    await server.release();
    expect(ids()).toEqual([]);
  });

  it("does not undo what has no version", async () => {
    server.chats = [chatOf(1, { needs_me: true })];
    server.hold();
    list.open();
    await settled();
    browser.last.accept();
    await told(chatOf(1, { needs_me: false }));
    await server.release();
    expect(list.chats.get().byId.get(idOf(1))?.needs_me).toBe(false);
  });

  it("does not take away a chat that was begun meanwhile", async () => {
    await opened();
    server.hold();
    void list.read();
    await settled();
    await told(chatOf(9));
    await server.release();
    expect(ids()).toEqual([idOf(9)]);
  });
});

describe("after an absence", () => {
  it("chats that were deleted or put away meanwhile are gone", async () => {
    server.chats = [chatOf(1), chatOf(2), chatOf(3)];
    await opened();
    server.chats = [chatOf(1), chatOf(2, { archived: true })];
    browser.last.break();
    await vi.advanceTimersByTimeAsync(600);
    browser.last.accept();
    await settled();
    expect(ids()).toEqual([idOf(1)]);
  });

  it("chats that other chats set to work stay known", async () => {
    await opened();
    await told(chatOf(5, { parent_id: idOf(1) }));
    await list.read();
    expect(ids()).toEqual([idOf(5)]);
  });
});

describe("somebody whom the server does not know any more", () => {
  it("stands before the door", async () => {
    session.set({ is: "in", me: {} as never });
    await opened();
    server.refuse = { status: 401, detail: "who are you" };
    browser.last.say("end", { reason: "revoked", reconnect: false });
    await settled();
    expect(session.get().is).toBe("out");
  });

  it("comes back when it was only the old session", async () => {
    session.set({ is: "in", me: {} as never });
    await opened();
    browser.last.say("end", { reason: "revoked", reconnect: false });
    await vi.advanceTimersByTimeAsync(1_100);
    expect(browser.sockets).toHaveLength(2);
    expect(session.get().is).toBe("in");
  });
});

describe("a chat that is looked at", () => {
  it("is known, wherever it stands", async () => {
    server.chats = [chatOf(1, { archived: true })];
    await opened();
    await list.ensureLoaded(idOf(1));
    expect(ids()).toEqual([idOf(1)]);
  });

  it("is not asked for when it is known, and may not exist", async () => {
    server.chats = [chatOf(1)];
    await opened();
    server.asked = [];
    await list.ensureLoaded(idOf(1));
    expect(server.asked).toEqual([]);
    await list.ensureLoaded(idOf(2));
    expect(ids()).toEqual([idOf(1)]);
  });
});

describe("a change", () => {
  it("is seen at once, whatever the stream still tells", async () => {
    server.chats = [chatOf(1)];
    await opened();
    server.hold();
    const changed = list.change(idOf(1), { pinned: true, title: "Mine" });
    await told(chatOf(1, { status: "running", snapshot_version: 2 }));
    const seen = list.chats.get().byId.get(idOf(1));
    expect(seen).toMatchObject({ pinned: true, title: "Mine", status: "running" });
    await server.release();
    await changed;
  });

  it("that the server refuses is taken back", async () => {
    server.chats = [chatOf(1)];
    await opened();
    server.refuse = { status: 409, detail: "it is at work" };
    await expect(list.change(idOf(1), { archived: true })).rejects.toThrow("it is at work");
    expect(list.chats.get().byId.get(idOf(1))?.archived).toBe(false);
  });

  it("stays when the answer was overtaken by what was told before it", async () => {
    server.chats = [chatOf(1)];
    await opened();
    server.hold();
    const changed = list.change(idOf(1), { pinned: true });
    await told(chatOf(1, { needs_me: true }));
    await server.release();
    await changed;
    expect(list.chats.get().byId.get(idOf(1))).toMatchObject({ pinned: true, needs_me: true });
  });

  it("to unread is not taken back before the stream tells of it", async () => {
    server.chats = [chatOf(1)];
    await opened();
    const seen: unknown[] = [];
    list.chats.subscribe(() => seen.push(list.chats.get().byId.get(idOf(1))?.unread));
    await list.markUnread(idOf(1));
    await told(chatOf(1, { unread: true }));
    expect(new Set(seen)).toEqual(new Set([true]));
  });

  it("leaves all other chats the same objects", async () => {
    server.chats = [chatOf(1), chatOf(2)];
    await opened();
    const before = list.chats.get().byId.get(idOf(2));
    await list.change(idOf(1), { pinned: true });
    expect(list.chats.get().byId.get(idOf(2))).toBe(before);
  });
});

describe("a deletion", () => {
  it("is seen at once, and stays", async () => {
    server.chats = [chatOf(1)];
    await opened();
    const removed = list.remove(idOf(1));
    expect(ids()).toEqual([]);
    await removed;
    await list.read();
    expect(ids()).toEqual([]);
  });

  it("that the server refuses is taken back", async () => {
    server.chats = [chatOf(1)];
    await opened();
    server.refuse = { status: 403, detail: "you may only read" };
    await expect(list.remove(idOf(1))).rejects.toThrow("you may only read");
    expect(ids()).toEqual([idOf(1)]);
  });
});

it("what was kept in this browser for a chat goes with it, and nothing else", async () => {
  const kept = new Map(
    [`draft.${idOf(1)}`, `draft.${idOf(1)}.files`, `outbox.${idOf(1)}.k`, `draft.${idOf(2)}`].map(
      (name) => [`holdfast.${name}`, "1"],
    ),
  );
  vi.stubGlobal("localStorage", {
    get length() {
      return kept.size;
    },
    key: (at: number) => [...kept.keys()][at],
    removeItem: (name: string) => kept.delete(name),
  });
  server.chats = [chatOf(1), chatOf(2)];
  await opened();
  browser.last.say("deleted", { id: idOf(1) }, "1");
  await settled();
  expect([...kept.keys()]).toEqual([`holdfast.draft.${idOf(2)}`]);
});
