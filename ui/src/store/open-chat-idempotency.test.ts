import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { OpenChat } from "./open-chat";

let keys: (string | null)[];
let reachable: boolean;

beforeEach(() => {
  keys = [];
  vi.stubGlobal("fetch", async (_: string, init: RequestInit) => {
    keys.push((init.headers as Headers).get("Idempotency-Key"));
    if (!reachable) throw new TypeError("network");
    return Response.json({ id: "other" });
  });
});

afterEach(() => void vi.unstubAllGlobals());

test.each([
  ["an edit", (chat: OpenChat) => chat.edit(3, "Again")],
  ["a fork", (chat: OpenChat) => chat.fork(3, "Again")],
])("%s whose answer nobody heard is done once, however often it is asked for", async (_, ask) => {
  const chat = new OpenChat("c");
  reachable = false;
  await expect(ask(chat)).rejects.toThrow("cannot be reached");
  reachable = true;
  await ask(chat);
  expect(keys[0]).toEqual(expect.any(String));
  expect(keys[1]).toBe(keys[0]);
  await ask(chat);
  expect(keys[2]).not.toBe(keys[0]);
});
