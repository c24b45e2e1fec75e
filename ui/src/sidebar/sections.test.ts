import { describe, expect, it } from "vitest";
import type { Chat } from "../api/types";
import { chatStatusOf, statusLineOf } from "./chat-status";
import { type Filters, filtersOf, NO_FILTERS, queryOf, serverQueryOf } from "./filters";
import { type FrozenOrder, freezeOrder, neighbourOf, sectionsOf } from "./sections";

const NOW = new Date(2026, 10, 16, 14, 0).getTime();
const HOUR = 3_600_000;

function chatOf(id: string, hoursAgo = 0, more: Partial<Chat> = {}): Chat {
  const rest = { archived: false, parent_id: null, status: "idle", agent: "main", model: null };
  const marks = { error: null, retry: null, outcome: null, mine: true };
  const updated_at = (NOW - hoursAgo * HOUR) * 1000;
  return { id, updated_at, ...rest, ...marks, ...more } as unknown as Chat;
}

function sectionsFor(chats: readonly Chat[], more: Partial<Parameters<typeof sectionsOf>[0]> = {}) {
  const byId = new Map(chats.map((chat) => [chat.id, chat]));
  return sectionsOf({ chats: byId, now: NOW, filters: NO_FILTERS, collapsed: new Set(), ...more });
}

const outline = (of: ReturnType<typeof sectionsOf>) =>
  of.map(({ name, rows }) => `${name}: ${rows.map(({ id }) => id).join(" ")}`);

describe("sections of the list", () => {
  it("are by pin, owner and calendar day", () => {
    const found = sectionsFor([
      chatOf("a", 1),
      chatOf("b", 13),
      chatOf("c", 15),
      chatOf("d", 39),
      chatOf("e", 24 * 6),
      chatOf("f", 24 * 30),
      chatOf("g", 24 * 300, { pinned: true }),
      chatOf("h", 1, { mine: false }),
      chatOf("i", 1, { mine: false, pinned: true }),
    ]);
    expect(outline(found)).toEqual([
      "Pinned: i g",
      "Shared with you: h",
      "Today: a b",
      "Yesterday: c",
      "Past week: d e",
      "Older: f",
    ]);
  });

  it("that are empty are left out", () => {
    expect(sectionsFor([])).toEqual([]);
  });

  it("that are collapsed still have their count", () => {
    const found = sectionsFor([chatOf("a"), chatOf("b")], { collapsed: new Set(["today"]) });
    expect(found).toEqual([{ key: "today", name: "Today", isOpen: false, count: 2, rows: [] }]);
  });

  it("have no subagent's chat, unless its parent is not shared with the user", () => {
    const child = chatOf("b", 0, { parent_id: "a" });
    const shared = chatOf("c", 0, { parent_id: "x", mine: false });
    expect(outline(sectionsFor([chatOf("a"), child, shared]))).toEqual([
      "Shared with you: c",
      "Today: a",
    ]);
  });
});

describe("while the pointer is on the list", () => {
  const before = [chatOf("a", 1), chatOf("b", 2), chatOf("c", 20)];
  const hold: FrozenOrder = freezeOrder(before, NOW);

  it("a changed chat stays in place", () => {
    const worked = [chatOf("a", 1), chatOf("b", 2), chatOf("c", -0.1)];
    expect(outline(sectionsFor(worked, { frozen: hold }))).toEqual(outline(sectionsFor(before)));
    expect(outline(sectionsFor(worked))).toEqual(["Today: c a b"]);
  });

  it("a new chat is not shown, unless it is open", () => {
    const more = [...before, chatOf("new", -0.1)];
    expect(outline(sectionsFor(more, { frozen: hold }))).toEqual(outline(sectionsFor(before)));
    expect(outline(sectionsFor(more, { frozen: hold, open: "new" }))[0]).toBe("Today: new a b");
  });

  it("older chats loaded meanwhile are shown", () => {
    expect(outline(sectionsFor([...before, chatOf("old", 900)], { frozen: hold }))).toContain(
      "Older: old",
    );
  });

  it("the user's own changes are shown at once", () => {
    const pinned = [chatOf("a", 1), chatOf("b", 2, { pinned: true }), chatOf("c", 20)];
    expect(outline(sectionsFor(pinned, { frozen: hold }))[0]).toBe("Pinned: b");
  });
});

describe("the previous and next chat", () => {
  const found = sectionsFor([chatOf("a", 1), chatOf("b", 2), chatOf("c", 20)]);
  it.each([
    ["a", 1, "b"],
    ["b", 1, "c"],
    ["b", -1, "a"],
    ["c", 1, null],
    ["a", -1, null],
    [null, 1, "a"],
    [null, -1, "c"],
    ["gone", 1, "a"],
  ] as const)("%s, %i: %s", (id, step, other) => {
    expect(neighbourOf(found, id, step)).toBe(other);
  });
});

describe("filters", () => {
  const chats = [
    chatOf("put-away", 0, { archived: true }),
    chatOf("running", 0, { status: "running" }),
    chatOf("stopping", 0, { status: "interrupting" }),
    chatOf("asks", 0, { status: "requires_action", needs_me: true }),
    chatOf("above", 0, { status: "requires_action" }),
    chatOf("below-asks", 0, { status: "running", needs_me: true }),
    chatOf("broken", 0, { status: "error" }),
    chatOf("other", 0, { agent: "reviewer" }),
  ];
  const found = (change: Partial<Filters>) =>
    sectionsFor(chats, { filters: { ...NO_FILTERS, ...change } })
      .flatMap(({ rows }) => rows.map(({ id }) => id))
      .sort();

  it("show matching chats only", () => {
    expect(found({})).not.toContain("put-away");
    expect(found({ archived: true })).toEqual(["put-away"]);
    expect(found({ status: "working" })).toEqual(["above", "running", "stopping"]);
    expect(found({ status: "waiting" })).toEqual(["asks", "below-asks"]);
    expect(found({ status: "failed" })).toEqual(["broken"]);
    expect(found({ agent: "reviewer" })).toEqual(["other"]);
  });

  it("are kept in the URL", () => {
    const filters: Filters = { archived: true, status: "failed", agent: "a b&c" };
    expect(filtersOf(queryOf(filters))).toEqual(filters);
    expect(queryOf(NO_FILTERS)).toBe("");
  });

  it("that are unknown are ignored", () => {
    expect(filtersOf("?status=toString&archived=1&agent=&q=x")).toEqual(NO_FILTERS);
  });

  it("become a server query", () => {
    expect(serverQueryOf({ archived: true, status: "failed", agent: "x" })).toEqual({
      archived: true,
      status: "error",
      agent: "x",
    });
    expect(serverQueryOf(NO_FILTERS)).toEqual({});
  });
});

describe("the status of a chat", () => {
  const failure = { kind: "auth" as const, message: "The key was refused." };
  it.each([
    ["failed", "The key was refused.", { status: "error", error: failure, needs_me: true }],
    ["failed", "No worker for the agent main.", { status: "running", stranded: true }],
    ["waiting", "Waiting for you", { status: "running", needs_me: true }],
    ["waiting", "Waiting for an answer", { status: "requires_action", mine: false }],
    ["working", "Waiting for a subagent", { status: "requires_action" }],
    ["working", "Working…", { status: "running" }],
    [
      "working",
      "Waiting to retry: attempt 2 of 5",
      { status: "running", retry: { attempt: 1, of: 5 } },
    ],
    ["stopping", "Stopping…", { status: "interrupting" }],
    ["unread", "sonnet-5", { unread: true, model: "anthropic/sonnet-5" }],
    ["idle", "main", {}],
    ["idle", "Bea", { mine: false, owner_name: "Bea" }],
  ] as const)("%s: %s", (standing, said, more) => {
    const chat = chatOf("a", 0, more as Partial<Chat>);
    expect([chatStatusOf(chat), statusLineOf(chat)]).toEqual([standing, said]);
  });

  it("is read when it is open", () => {
    expect(chatStatusOf(chatOf("a", 0, { unread: true }), true)).toBe("idle");
  });
});
