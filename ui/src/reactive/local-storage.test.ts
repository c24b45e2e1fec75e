import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { readStored, setStorageUser, storedNames, writeStored } from "./local-storage";

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
  setStorageUser("");
  vi.unstubAllGlobals();
});

it("shows no user what another user of this browser wrote", () => {
  setStorageUser("ann");
  writeStored("draft.new", "Dear diary", "");
  setStorageUser("bob");
  expect(readStored("draft.new", "")).toBe("");
  expect(storedNames("draft.")).toEqual([]);
  setStorageUser("ann");
  expect(readStored("draft.new", "")).toBe("Dear diary");
  expect(storedNames("draft.")).toEqual(["draft.new"]);
});

it("shares the appearance among all users", () => {
  setStorageUser("ann");
  writeStored("preferences", { theme: "dark" }, {});
  setStorageUser("bob");
  expect(readStored("preferences", {})).toEqual({ theme: "dark" });
});
