import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { keep, keepFor, kept, keptNames } from "./kept";

beforeEach(() => {
  const all = new Map<string, string>();
  vi.stubGlobal("localStorage", {
    getItem: (name: string) => all.get(name) ?? null,
    setItem: (name: string, text: string) => void all.set(name, text),
    removeItem: (name: string) => void all.delete(name),
    key: (at: number) => [...all.keys()][at] ?? null,
    get length() {
      return all.size;
    },
  });
});

afterEach(() => {
  keepFor("");
  vi.unstubAllGlobals();
});

it("shows nobody what another user of this browser wrote", () => {
  keepFor("ann");
  keep("draft.new", "Dear diary", "");
  keepFor("bob");
  expect(kept("draft.new", "")).toBe("");
  expect(keptNames("draft.")).toEqual([]);
  keepFor("ann");
  expect(kept("draft.new", "")).toBe("Dear diary");
  expect(keptNames("draft.")).toEqual(["draft.new"]);
});

it("keeps how the page looks for everybody", () => {
  keepFor("ann");
  keep("preferences", { theme: "dark" }, {});
  keepFor("bob");
  expect(kept("preferences", {})).toEqual({ theme: "dark" });
});
