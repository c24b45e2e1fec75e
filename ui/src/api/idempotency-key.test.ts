import { expect, test, vi } from "vitest";
import { IdempotencyKeys } from "./idempotency-key";

test("the same request has the same key until it is done, and another request another key", () => {
  const keys = new IdempotencyKeys();
  const first = keys.for({ name: "a" });
  expect(keys.for({ name: "a" })).toBe(first);
  expect(keys.for({ name: "b" })).not.toBe(first);
  const last = keys.for({ name: "b" });
  keys.done();
  expect(keys.for({ name: "b" })).not.toBe(last);
});

test("a named key survives a reload, until it is done", () => {
  const map = new Map<string, string>();
  vi.stubGlobal("localStorage", {
    getItem: (name: string) => map.get(name) ?? null,
    setItem: (name: string, value: string) => map.set(name, value),
    removeItem: (name: string) => map.delete(name),
  });
  const first = new IdempotencyKeys("chat").for("a");
  const after = new IdempotencyKeys("chat");
  expect(new IdempotencyKeys("other").for("a")).not.toBe(first);
  expect(after.for("a")).toBe(first);
  after.done();
  expect(map.size).toBe(1);
  expect(new IdempotencyKeys("chat").for("a")).not.toBe(first);
  vi.unstubAllGlobals();
});
