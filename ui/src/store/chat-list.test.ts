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

  /** Releases held responses, the last request first, each with the state at its request. */
  async release(): Promise<void> {
    const held = this.#held ?? [];
    this.#held = null;
    for (const arrive of held.reverse()) {
      arrive();
      await settle();
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

const settle = () => vi.advanceTimersByTimeAsync(20);
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

async function openList(): Promise<void> {
  list.open();
  await settle();
  browser.last.accept();
}

async function sendChatEvent(chat: Chat): Promise<void> {
  browser.last.send("chat", chat, "1");
  await settle();
}

const ids = () => [...list.chats.get().byId.keys()].sort();
const titleOf = (number: number) => list.chats.get().byId.get(idOf(number))?.title;

describe("pages", () => {
  it("load the newest chats first, then older ones until all are there", async () => {
    server.chats = Array.from({ length: 120 }, (_, index) => chatOf(index));
    await openList();
    expect(ids()).toHaveLength(50);
    expect(list.chats.get()).toMatchObject({ is: "rest", next: idOf(70) });
    await list.readMore();
    await list.readMore();
    expect(ids()).toHaveLength(120);
    expect(list.chats.get().next).toBeNull();
  });

  it("are not requested twice at once", async () => {
    server.chats = Array.from({ length: 60 }, (_, index) => chatOf(index));
    await openList();
    server.asked = [];
    await Promise.all([list.readMore(), list.readMore()]);
    expect(server.asked).toHaveLength(1);
  });

  it("include all pinned chats, however old", async () => {
    server.chats = Array.from({ length: 60 }, (_, index) => chatOf(index, { pinned: index === 0 }));
    await openList();
    expect(ids()).toContain(idOf(0));
    expect(list.chats.get().next).toBe(idOf(10));
  });

  it("that fail to load have an error, and load on retry", async () => {
    server.chats = [chatOf(1)];
    server.refuse = { status: 503, detail: "the database is away" };
    await openList();
    expect(list.chats.get().is).toBe("failed");
    expect(list.chats.get().problem?.message).toBe("the database is away");
    server.refuse = null;
    await list.retry();
    expect(ids()).toEqual([idOf(1)]);
    expect(list.chats.get().problem).toBeNull();
  });

  it("of an earlier query change nothing", async () => {
    server.chats = Array.from({ length: 60 }, (_, index) =>
      chatOf(index, { archived: index < 55 }),
    );
    await openList();
    server.hold();
    list.setQuery({ archived: true });
    list.setQuery({});
    await server.release();
    expect(list.chats.get()).toMatchObject({ is: "rest", next: null });
    expect(ids()).toHaveLength(55);
  });
});

describe("the stream", () => {
  it("starts a day ago, because pages are ordered by creation", async () => {
    list.open();
    await settle();
    expect(Number(browser.last.cursor)).toBeCloseTo((Date.now() - 86_400_000) * 1000, -8);
  });

  it("adds new chats, changes and deletions", async () => {
    server.chats = [chatOf(1), chatOf(2)];
    await openList();
    await sendChatEvent(chatOf(3));
    await sendChatEvent(chatOf(1, { title: "Renamed", snapshot_version: 2 }));
    browser.last.send("deleted", { id: idOf(2) }, "2");
    await settle();
    expect(ids()).toEqual([idOf(1), idOf(3)]);
    expect(titleOf(1)).toBe("Renamed");
  });

  it("does not replace newer versions", async () => {
    await openList();
    await sendChatEvent(chatOf(1, { title: "New", snapshot_version: 5 }));
    await sendChatEvent(chatOf(1, { title: "Old", snapshot_version: 4 }));
    expect(titleOf(1)).toBe("New");
  });

  it("reloads the list after a reset event, as far as before", async () => {
    server.chats = Array.from({ length: 250 }, (_, index) => chatOf(index));
    await openList();
    while (list.chats.get().next !== null) await list.readMore();
    server.chats = server.chats.filter(({ id }) => id !== idOf(3) && id !== idOf(245));
    browser.last.send("reset", {}, "9");
    await settle();
    expect(ids()).toHaveLength(248);
    expect(list.chats.get().next).toBeNull();
  });
});

describe("a response that the stream overtook", () => {
  it("does not bring back a chat that was deleted", async () => {
    server.chats = [chatOf(1)];
    server.hold();
    list.open();
    await settle();
    browser.last.accept();
    browser.last.send("deleted", { id: idOf(1) }, "1");
    await settle();
    await server.release();
    expect(ids()).toEqual([]);
  });

  it("does not undo reader state, which has no version", async () => {
    server.chats = [chatOf(1, { needs_me: true })];
    server.hold();
    list.open();
    await settle();
    browser.last.accept();
    await sendChatEvent(chatOf(1, { needs_me: false }));
    await server.release();
    expect(list.chats.get().byId.get(idOf(1))?.needs_me).toBe(false);
  });

  it("does not remove a chat created meanwhile", async () => {
    await openList();
    server.hold();
    void list.read();
    await settle();
    await sendChatEvent(chatOf(9));
    await server.release();
    expect(ids()).toEqual([idOf(9)]);
  });
});

describe("after an outage", () => {
  it("chats that were deleted or archived meanwhile are removed", async () => {
    server.chats = [chatOf(1), chatOf(2), chatOf(3)];
    await openList();
    server.chats = [chatOf(1), chatOf(2, { archived: true })];
    browser.last.break();
    await vi.advanceTimersByTimeAsync(600);
    browser.last.accept();
    await settle();
    expect(ids()).toEqual([idOf(1)]);
  });

  it("chats of subagents stay loaded", async () => {
    await openList();
    await sendChatEvent(chatOf(5, { parent_id: idOf(1) }));
    await list.read();
    expect(ids()).toEqual([idOf(5)]);
  });
});

describe("an expired session", () => {
  it("leads to the sign-in form", async () => {
    session.set({ is: "in", me: {} as never });
    await openList();
    server.refuse = { status: 401, detail: "who are you" };
    browser.last.send("end", { reason: "revoked", reconnect: false });
    await settle();
    expect(session.get().is).toBe("out");
  });

  it("continues when another tab has renewed the session", async () => {
    session.set({ is: "in", me: {} as never });
    await openList();
    browser.last.send("end", { reason: "revoked", reconnect: false });
    await vi.advanceTimersByTimeAsync(1_100);
    expect(browser.sockets).toHaveLength(2);
    expect(session.get().is).toBe("in");
  });
});

describe("an open chat", () => {
  it("is loaded, also if it is not in the list", async () => {
    server.chats = [chatOf(1, { archived: true })];
    await openList();
    await list.ensureLoaded(idOf(1));
    expect(ids()).toEqual([idOf(1)]);
  });

  it("is not requested if it is loaded, and may not exist", async () => {
    server.chats = [chatOf(1)];
    await openList();
    server.asked = [];
    await list.ensureLoaded(idOf(1));
    expect(server.asked).toEqual([]);
    await list.ensureLoaded(idOf(2));
    expect(ids()).toEqual([idOf(1)]);
  });
});

describe("a change", () => {
  it("is shown at once, whatever events arrive", async () => {
    server.chats = [chatOf(1)];
    await openList();
    server.hold();
    const changed = list.change(idOf(1), { pinned: true, title: "Mine" });
    await sendChatEvent(chatOf(1, { status: "running", snapshot_version: 2 }));
    const seen = list.chats.get().byId.get(idOf(1));
    expect(seen).toMatchObject({ pinned: true, title: "Mine", status: "running" });
    await server.release();
    await changed;
  });

  it("that the server refuses is undone", async () => {
    server.chats = [chatOf(1)];
    await openList();
    server.refuse = { status: 409, detail: "it is at work" };
    await expect(list.change(idOf(1), { archived: true })).rejects.toThrow("it is at work");
    expect(list.chats.get().byId.get(idOf(1))?.archived).toBe(false);
  });

  it("stays when the response was overtaken by an older event", async () => {
    server.chats = [chatOf(1)];
    await openList();
    server.hold();
    const changed = list.change(idOf(1), { pinned: true });
    await sendChatEvent(chatOf(1, { needs_me: true }));
    await server.release();
    await changed;
    expect(list.chats.get().byId.get(idOf(1))).toMatchObject({ pinned: true, needs_me: true });
  });

  it("to unread is not undone before the stream confirms it", async () => {
    server.chats = [chatOf(1)];
    await openList();
    const seen: unknown[] = [];
    list.chats.subscribe(() => seen.push(list.chats.get().byId.get(idOf(1))?.unread));
    await list.markUnread(idOf(1));
    await sendChatEvent(chatOf(1, { unread: true }));
    expect(new Set(seen)).toEqual(new Set([true]));
  });

  it("leaves all other chats the same objects", async () => {
    server.chats = [chatOf(1), chatOf(2)];
    await openList();
    const before = list.chats.get().byId.get(idOf(2));
    await list.change(idOf(1), { pinned: true });
    expect(list.chats.get().byId.get(idOf(2))).toBe(before);
  });
});

describe("a deletion", () => {
  it("is shown at once, and stays", async () => {
    server.chats = [chatOf(1)];
    await openList();
    const removed = list.remove(idOf(1));
    expect(ids()).toEqual([]);
    await removed;
    await list.read();
    expect(ids()).toEqual([]);
  });

  it("that the server refuses is undone", async () => {
    server.chats = [chatOf(1)];
    await openList();
    server.refuse = { status: 403, detail: "you may only read" };
    await expect(list.remove(idOf(1))).rejects.toThrow("you may only read");
    expect(ids()).toEqual([idOf(1)]);
  });
});

it("deleting a chat removes its stored values, and no others", async () => {
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
  await openList();
  browser.last.send("deleted", { id: idOf(1) }, "1");
  await settle();
  expect([...kept.keys()]).toEqual([`holdfast.draft.${idOf(2)}`]);
});
