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

function shown(chats: readonly Chat[], more: Partial<Parameters<typeof sectionsOf>[0]> = {}) {
  const byId = new Map(chats.map((chat) => [chat.id, chat]));
  return sectionsOf({ chats: byId, now: NOW, filters: NO_FILTERS, collapsed: new Set(), ...more });
}

const outline = (of: ReturnType<typeof sectionsOf>) =>
  of.map(({ name, rows }) => `${name}: ${rows.map(({ id }) => id).join(" ")}`);

describe("parts of the list", () => {
  it("go by pins, owners and days of the calendar", () => {
    const found = shown([
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

  it("that are empty are not there", () => {
    expect(shown([])).toEqual([]);
  });

  it("that are folded still say how many they have", () => {
    const found = shown([chatOf("a"), chatOf("b")], { collapsed: new Set(["today"]) });
    expect(found).toEqual([{ key: "today", name: "Today", isOpen: false, count: 2, rows: [] }]);
  });

  it("have no chat that another one set to work, unless that one is not shared with me", () => {
    const child = chatOf("b", 0, { parent_id: "a" });
    const shared = chatOf("c", 0, { parent_id: "x", mine: false });
    expect(outline(shown([chatOf("a"), child, shared]))).toEqual([
      "Shared with you: c",
      "Today: a",
    ]);
  });
});

describe("while somebody points at the list", () => {
  const before = [chatOf("a", 1), chatOf("b", 2), chatOf("c", 20)];
  const hold: FrozenOrder = freezeOrder(before, NOW);

  it("a chat that is at work stays where it was", () => {
    const worked = [chatOf("a", 1), chatOf("b", 2), chatOf("c", -0.1)];
    expect(outline(shown(worked, { frozen: hold }))).toEqual(outline(shown(before)));
    expect(outline(shown(worked))).toEqual(["Today: c a b"]);
  });

  it("a new chat waits, unless it is the one on the screen", () => {
    const more = [...before, chatOf("new", -0.1)];
    expect(outline(shown(more, { frozen: hold }))).toEqual(outline(shown(before)));
    expect(outline(shown(more, { frozen: hold, open: "new" }))[0]).toBe("Today: new a b");
  });

  it("older ones that were read meanwhile are there", () => {
    expect(outline(shown([...before, chatOf("old", 900)], { frozen: hold }))).toContain(
      "Older: old",
    );
  });

  it("what the person does to a chat is seen at once", () => {
    const pinned = [chatOf("a", 1), chatOf("b", 2, { pinned: true }), chatOf("c", 20)];
    expect(outline(shown(pinned, { frozen: hold }))[0]).toBe("Pinned: b");
  });
});

describe("the chat beside", () => {
  const found = shown([chatOf("a", 1), chatOf("b", 2), chatOf("c", 20)]);
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
    shown(chats, { filters: { ...NO_FILTERS, ...change } })
      .flatMap(({ rows }) => rows.map(({ id }) => id))
      .sort();

  it("show what fits and nothing else", () => {
    expect(found({})).not.toContain("put-away");
    expect(found({ archived: true })).toEqual(["put-away"]);
    expect(found({ status: "working" })).toEqual(["above", "running", "stopping"]);
    expect(found({ status: "waiting" })).toEqual(["asks", "below-asks"]);
    expect(found({ status: "failed" })).toEqual(["broken"]);
    expect(found({ agent: "reviewer" })).toEqual(["other"]);
  });

  it("survive the address", () => {
    const filters: Filters = { archived: true, status: "failed", agent: "a b&c" };
    expect(filtersOf(queryOf(filters))).toEqual(filters);
    expect(queryOf(NO_FILTERS)).toBe("");
  });

  it("that nobody knows are none", () => {
    expect(filtersOf("?status=toString&archived=1&agent=&q=x")).toEqual(NO_FILTERS);
  });

  it("ask the server for what it can find by", () => {
    expect(serverQueryOf({ archived: true, status: "failed", agent: "x" })).toEqual({
      archived: true,
      status: "error",
      agent: "x",
    });
    expect(serverQueryOf(NO_FILTERS)).toEqual({});
  });
});

describe("how a chat stands", () => {
  const failure = { kind: "auth" as const, message: "The key was refused." };
  it.each([
    ["failed", "The key was refused.", { status: "error", error: failure, needs_me: true }],
    ["failed", "No worker runs the agent main.", { status: "running", stranded: true }],
    ["waiting", "Needs your answer", { status: "running", needs_me: true }],
    ["waiting", "Waiting for an answer", { status: "requires_action", mine: false }],
    ["working", "Waiting for another agent", { status: "requires_action" }],
    ["working", "Working…", { status: "running" }],
    ["working", "Retrying, attempt 2 of 5…", { status: "running", retry: { attempt: 1, of: 5 } }],
    ["stopping", "Stopping…", { status: "interrupting" }],
    ["unread", "sonnet-5", { unread: true, model: "anthropic/sonnet-5" }],
    ["idle", "main", {}],
    ["idle", "Bea", { mine: false, owner_name: "Bea" }],
  ] as const)("%s: %s", (standing, said, more) => {
    const chat = chatOf("a", 0, more as Partial<Chat>);
    expect([chatStatusOf(chat), statusLineOf(chat)]).toEqual([standing, said]);
  });

  it("is read when it is on the screen", () => {
    expect(chatStatusOf(chatOf("a", 0, { unread: true }), true)).toBe("idle");
  });
});
