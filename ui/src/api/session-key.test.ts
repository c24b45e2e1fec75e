import { afterEach, beforeEach, expect, it, vi } from "vitest";

let storage: Map<string, string>;

beforeEach(() => {
  vi.resetModules();
  storage = new Map();
  vi.stubGlobal("localStorage", {
    getItem: (name: string) => storage.get(name) ?? null,
    setItem: (name: string, value: string) => storage.set(name, value),
    removeItem: (name: string) => storage.delete(name),
  });
});
afterEach(() => vi.unstubAllGlobals());

/** As a page has it that is loaded now. */
async function tab() {
  vi.resetModules();
  return await import("./session-key");
}

it("a key is available after a reload and in a new tab", async () => {
  (await tab()).storeSessionKey("hfk_1");
  expect((await tab()).sessionKey()).toBe("hfk_1");
});

it("a tab keeps its key until it adopts the key of another tab", async () => {
  const first = await tab();
  first.storeSessionKey("hfk_1");
  (await tab()).storeSessionKey("hfk_2");
  expect(first.sessionKey()).toBe("hfk_1");
  expect(first.adoptSessionKey()).toBe(true);
  expect(first.sessionKey()).toBe("hfk_2");
  expect(first.adoptSessionKey()).toBe(false);
});

it("a tab that signs out does not remove another tab's key", async () => {
  const first = await tab();
  first.storeSessionKey("hfk_1");
  const second = await tab();
  second.storeSessionKey("hfk_2");
  first.forgetSessionKey();
  expect(first.sessionKey()).toBeNull();
  expect((await tab()).sessionKey()).toBe("hfk_2");
  second.forgetSessionKey();
  expect((await tab()).sessionKey()).toBeNull();
  expect(second.adoptSessionKey()).toBe(false);
});

it("a page without storage keeps its key as long as it is open", async () => {
  vi.stubGlobal("localStorage", undefined);
  const first = await tab();
  first.storeSessionKey("hfk_1");
  expect(first.sessionKey()).toBe("hfk_1");
  expect(first.adoptSessionKey()).toBe(false);
  first.forgetSessionKey();
  expect(first.sessionKey()).toBeNull();
});
