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

function pendingAction(
  chat: string,
  id: string,
  at: number,
  more: Partial<InboxAction> = {},
): InboxAction {
  const call = { type: "call", id, tool: "execute", arguments: "{}" } as const;
  const action = { kind: "approval", call, arguments: "{}", digest: `d-${id}` } as const;
  const titles = { title: null, root_title: null };
  return { chat_id: chat, root_id: chat, ...titles, agent: "a", asked_at: at, action, ...more };
}

function chat(id: string, more: Partial<Chat>): [string, Chat] {
  const base = { id, needs_me: false, parent_id: null, snapshot_version: 1, status: "idle" };
  return [id, { ...base, ...more } as Chat];
}

describe("a pending action", () => {
  test("is sorted with the longest waiting first", () => {
    const entries = mergeEntries(
      [],
      [pendingAction("c2", "new", 20), pendingAction("c1", "old", 10)],
    );
    expect(entries.map(({ pending: asked }) => asked.chat_id)).toEqual(["c1", "c2"]);
  });

  test("stays in place when others are answered or added", () => {
    const first = mergeEntries([], [pendingAction("c1", "x", 10), pendingAction("c2", "y", 20)]);
    const then = mergeEntries(first, [pendingAction("c2", "y", 20), pendingAction("c0", "z", 5)]);
    expect(then.map(({ pending: asked, settled }) => [asked.chat_id, settled])).toEqual([
      ["c1", true],
      ["c2", false],
      ["c0", false],
    ]);
  });

  test("is a new entry when its arguments changed", () => {
    const before = pendingAction("c1", "x", 10);
    const now = { ...before, action: { ...before.action, digest: "other" } };
    expect(mergeEntries(mergeEntries([], [before]), [now]).map(({ settled }) => settled)).toEqual([
      true,
      false,
    ]);
  });

  test("is grouped under the root chat", () => {
    const below = pendingAction("child", "x", 10, { root_id: "top", root_title: "Work" });
    const groups = groupByChat(
      mergeEntries([], [below, pendingAction("other", "y", 20), pendingAction("top", "z", 30)]),
    );
    expect(groups.map(({ rootId, entries }) => [rootId, entries.length])).toEqual([
      ["top", 2],
      ["other", 1],
    ]);
  });
});

describe("the list of chats", () => {
  test("says when to fetch again", () => {
    const before = new Map([chat("a", { needs_me: true }), chat("b", {})]);
    const other = new Map([chat("a", { needs_me: true }), chat("b", { snapshot_version: 9 })]);
    expect(signature(other, [])).toBe(signature(before, []));
    const later = new Map([chat("a", { needs_me: true, snapshot_version: 2 })]);
    expect(signature(later, [])).not.toBe(signature(before, []));
    expect(signature(new Map([chat("a", {})]), [])).toBe("");
  });

  test("counts a chat with its subagents once", () => {
    const top = chat("a", { needs_me: true });
    const below = chat("b", { needs_me: true, parent_id: "a" });
    expect(countWaitingChats(new Map([top, below]))).toBe(1);
  });
});

describe("the title of the tab", () => {
  test("has the count in front, then the chat", () => {
    expect(tabTitle(2, "Release")).toBe("(2) Release — Holdfast");
    expect(tabTitle(0, "Release")).toBe("Release — Holdfast");
    expect(tabTitle(1, null)).toBe("(1) Holdfast");
    expect(tabTitle(0, null)).toBe("Holdfast");
  });
});
