import { describe, expect, it } from "vitest";
import type { Chat } from "../api/types";
import {
  matchesName,
  recentChats,
  searchQueryOf,
  suggestedPills,
  takePill,
  withoutPartialPill,
  withPill,
} from "./query";

describe("a typed filter", () => {
  it.each([
    ["is:failed ", "", "failed"],
    ["deploy is:Working ", "deploy", "working"],
    ["agent:Rev-1 ", "", "agent:Rev-1"],
    ["is:failed", "is:failed", null],
    ["this is: fine ", "this is: fine ", null],
    ["is:nothing ", "is:nothing ", null],
    ["basis:failed ", "basis:failed ", null],
  ] as const)("%j leaves %j and the pill %s", (written, text, pill) => {
    expect(takePill(written)).toEqual({ text, pill });
  });

  it("is suggested before it is complete", () => {
    expect(suggestedPills("log is:", [])).toHaveLength(5);
    expect(suggestedPills("is:wa", [])).toEqual(["waiting"]);
    expect(suggestedPills("agent:r", ["main", "Reviewer"])).toEqual(["agent:Reviewer"]);
    expect(suggestedPills("is it", [])).toEqual([]);
  });

  it("is not part of the search text", () => {
    expect(withoutPartialPill("log is:wa")).toBe("log ");
    expect(searchQueryOf("log is:wa", [])).toEqual({ limit: 50, q: "log" });
  });
});

describe("pills", () => {
  it("have one status and one agent", () => {
    expect(withPill(["failed", "archived"], "working")).toEqual(["archived", "working"]);
    expect(withPill(["agent:a"], "agent:b")).toEqual(["agent:b"]);
    expect(withPill(["pinned"], "pinned")).toEqual(["pinned"]);
  });

  it("are sent with the words, or alone", () => {
    expect(searchQueryOf(" a b ", ["archived", "failed", "agent:x", "pinned"])).toEqual({
      limit: 50,
      q: "a b",
      archived: true,
      status: "error",
      agent: "x",
      pinned: true,
    });
    expect(searchQueryOf("", ["waiting"])).toEqual({ limit: 50, status: "requires_action" });
    expect(searchQueryOf("  ", [])).toBeNull();
  });
});

describe("names", () => {
  it.each([
    ["Settings: models", "mod", true],
    ["Settings: models", "set mo", true],
    ["Dark theme", "ark", false],
  ] as const)("%s by %j: %s", (name, text, found) => {
    expect(matchesName(name, text)).toBe(found);
  });
});

describe("recent chats", () => {
  it("are those that changed last, without subagents", () => {
    const chat = (id: string, updated_at: number, more: Partial<Chat> = {}) =>
      ({ id, updated_at, archived: false, parent_id: null, ...more }) as Chat;
    const chats = [
      chat("a", 1),
      chat("b", 3),
      chat("c", 2, { archived: true }),
      chat("d", 4, { parent_id: "a" }),
      chat("e", 0),
    ];
    expect(recentChats(chats, 2).map(({ id }) => id)).toEqual(["b", "a"]);
  });
});
