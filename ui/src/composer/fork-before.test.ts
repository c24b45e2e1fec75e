import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { Stored } from "../api/types";
import { Draft } from "./draft";
import { forkBefore } from "./fork-before";

let before: readonly number[];
let requests: { readonly path: string; readonly body: unknown; readonly key: string | null }[];
let reachable: boolean;

beforeEach(() => {
  requests = [];
  reachable = true;
  const map = new Map<string, string>();
  vi.stubGlobal("location", { href: "http://page/", origin: "http://page" });
  vi.stubGlobal("localStorage", {
    getItem: (name: string) => map.get(name) ?? null,
    setItem: (name: string, value: string) => map.set(name, value),
    removeItem: (name: string) => map.delete(name),
  });
  vi.stubGlobal("fetch", async (url: string | URL, init?: RequestInit) => {
    const body = typeof init?.body === "string" ? JSON.parse(init.body) : null;
    const key = new Headers(init?.headers).get("Idempotency-Key");
    requests.push({ path: String(url), body, key });
    if (body !== null && !reachable) throw new TypeError("network");
    const messages = before.map((number) => ({ number }));
    return Response.json(body === null ? { messages, next: null } : { id: "other" });
  });
});

afterEach(() => void vi.unstubAllGlobals());

function promptAt(number: number): Stored {
  const message = { role: "user", kind: "prompt", parts: [{ type: "text", text: "And now?" }] };
  return { number, message } as unknown as Stored;
}

test("a fork ends before the message, which becomes its draft", async () => {
  before = [4]; // an edit took out 5 and 6
  expect(await forkBefore("one", promptAt(7))).toBe("/chats/other");
  expect(requests.map(({ body }) => body)).toEqual([null, { number: 4 }]);
  expect(requests[0]?.path).toContain("before=7");
  expect(new Draft("other").content.get().text).toBe("And now?");
});

test("before the first message there is nothing to fork: it becomes the draft of a new chat", async () => {
  before = [];
  expect(await forkBefore("one", promptAt(1))).toBe("/new");
  expect(requests).toHaveLength(1);
  expect(new Draft("new").content.get().text).toBe("And now?");
});

test("a fork whose response was lost is created once, however often it is requested", async () => {
  before = [4];
  reachable = false;
  await expect(forkBefore("one", promptAt(7))).rejects.toThrow("cannot be reached");
  reachable = true;
  await forkBefore("one", promptAt(7));
  await forkBefore("one", promptAt(7));
  const [first, second, third] = requests.filter(({ body }) => body !== null).map(({ key }) => key);
  expect(first).toEqual(expect.any(String));
  expect(second).toBe(first);
  expect(third).not.toBe(first);
});
