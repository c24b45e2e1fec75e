import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { StreamState } from "../api/event-stream";
import { Store } from "../reactive/store";
import { chatClosed, chatOpened, sendInBackground } from "./background-sender";
import { Outbox } from "./outbox";

const sent: string[] = [];
let reachable = false;
let stop: () => void = () => {};

function fakeFetch(url: string, init: RequestInit): Promise<Response> {
  if (!reachable) return Promise.reject(new TypeError("network"));
  if (init.method === "POST")
    sent.push(`${url.split("/").at(-2)}: ${JSON.parse(String(init.body)).prompt}`);
  return Promise.resolve(new Response(JSON.stringify({ number: 1 }), { status: 202 }));
}

async function settle(): Promise<void> {
  for (let turn = 0; turn < 30; turn += 1) await Promise.resolve();
}

beforeEach(() => {
  const all = new Map<string, string>();
  sent.length = 0;
  reachable = false;
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  vi.stubGlobal("fetch", fakeFetch);
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
  stop();
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

/** A message that could not be sent, in a chat that was left. */
async function unsentIn(chat: string): Promise<void> {
  const outbox = new Outbox(chat);
  outbox.open(new Store<StreamState>({ is: "open" }));
  outbox.put(`hello ${chat}`, "queue", {});
  await settle();
  outbox.close();
}

test("unsent messages of a closed chat are sent when the server is back", async () => {
  await unsentIn("a");
  await unsentIn("b.c");
  const line = new Store<StreamState>({ is: "broken", retryAt: 0, tries: 1 });
  stop = sendInBackground(line);
  await settle();
  expect(sent).toEqual([]);
  reachable = true;
  line.set({ is: "open" });
  await settle();
  expect(sent.sort()).toEqual(["a: hello a", "b.c: hello b.c"]);
  line.set({ is: "broken", retryAt: 0, tries: 1 });
  line.set({ is: "open" });
  await settle();
  expect(sent).toHaveLength(2);
});

test("an open chat sends its own messages", async () => {
  await unsentIn("a");
  reachable = true;
  chatOpened("a");
  stop = sendInBackground(new Store<StreamState>({ is: "open" }));
  await settle();
  expect(sent).toEqual([]);
  chatClosed("a");
  await settle();
  expect(sent).toEqual(["a: hello a"]);
});

test("messages left by another tab are sent too, in a chat where this page has sent before", async () => {
  await unsentIn("a");
  reachable = true;
  const line = new Store<StreamState>({ is: "open" });
  stop = sendInBackground(line);
  await settle();
  reachable = false;
  await unsentIn("a");
  line.set({ is: "broken", retryAt: 0, tries: 1 });
  reachable = true;
  line.set({ is: "open" });
  await settle();
  expect(sent).toEqual(["a: hello a", "a: hello a"]);
});
