import { describe, expect, test } from "vitest";
import type { Chat } from "../api/types";
import {
  countWaitingChats,
  groupByChat,
  type InboxAction,
  mergeEntries,
  signature,
  tabTitle,
} from "./grouping";

function asked(chat: string, id: string, at: number, more: Partial<InboxAction> = {}): InboxAction {
  const call = { type: "call", id, tool: "execute", arguments: "{}" } as const;
  const action = { kind: "approval", call, arguments: "{}", digest: `d-${id}` } as const;
  const titles = { title: null, root_title: null };
  return { chat_id: chat, root_id: chat, ...titles, agent: "a", asked_at: at, action, ...more };
}

function chat(id: string, more: Partial<Chat>): [string, Chat] {
  const base = { id, needs_me: false, parent_id: null, snapshot_version: 1, status: "idle" };
  return [id, { ...base, ...more } as Chat];
}

describe("what waits", () => {
  test("is shown with the longest waiting first", () => {
    const entries = mergeEntries([], [asked("c2", "new", 20), asked("c1", "old", 10)]);
    expect(entries.map(({ pending: asked }) => asked.chat_id)).toEqual(["c1", "c2"]);
  });

  test("stays where it is when something else is answered or comes in", () => {
    const first = mergeEntries([], [asked("c1", "x", 10), asked("c2", "y", 20)]);
    const then = mergeEntries(first, [asked("c2", "y", 20), asked("c0", "z", 5)]);
    expect(then.map(({ pending: asked, settled }) => [asked.chat_id, settled])).toEqual([
      ["c1", true],
      ["c2", false],
      ["c0", false],
    ]);
  });

  test("is something new when its arguments changed", () => {
    const before = asked("c1", "x", 10);
    const now = { ...before, action: { ...before.action, digest: "other" } };
    expect(mergeEntries(mergeEntries([], [before]), [now]).map(({ settled }) => settled)).toEqual([
      true,
      false,
    ]);
  });

  test("is grouped under the chat at the top", () => {
    const below = asked("child", "x", 10, { root_id: "top", root_title: "Work" });
    const groups = groupByChat(
      mergeEntries([], [below, asked("other", "y", 20), asked("top", "z", 30)]),
    );
    expect(groups.map(({ rootId, entries }) => [rootId, entries.length])).toEqual([
      ["top", 2],
      ["other", 1],
    ]);
  });
});

describe("the list of chats", () => {
  test("says when to look again", () => {
    const before = new Map([chat("a", { needs_me: true }), chat("b", {})]);
    const other = new Map([chat("a", { needs_me: true }), chat("b", { snapshot_version: 9 })]);
    expect(signature(other, [])).toBe(signature(before, []));
    const later = new Map([chat("a", { needs_me: true, snapshot_version: 2 })]);
    expect(signature(later, [])).not.toBe(signature(before, []));
    expect(signature(new Map([chat("a", {})]), [])).toBe("");
  });

  test("counts a family once", () => {
    const top = chat("a", { needs_me: true });
    const below = chat("b", { needs_me: true, parent_id: "a" });
    expect(countWaitingChats(new Map([top, below]))).toBe(1);
  });
});

describe("the title of the tab", () => {
  test("has the count in front and the chat in it", () => {
    expect(tabTitle(2, "Release")).toBe("(2) Release — Holdfast");
    expect(tabTitle(0, "Release")).toBe("Release — Holdfast");
    expect(tabTitle(1, null)).toBe("(1) Holdfast");
    expect(tabTitle(0, null)).toBe("Holdfast");
  });
});
