import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { Status } from "../api/types";
import { OpenChat } from "./open-chat";

/** The stream, as the test says it. */
class FakeSocket {
  static last: FakeSocket;
  onmessage: ((event: { data: string }) => void) | null = null;
  constructor() {
    FakeSocket.last = this;
  }
  close() {}
}

let opened: OpenChat | null = null;
let answer: (status: number, body: unknown) => Promise<void>;

beforeEach(() => {
  vi.stubGlobal("WebSocket", FakeSocket);
  vi.stubGlobal("location", { href: "http://page/" });
  vi.stubGlobal("document", { addEventListener() {}, removeEventListener() {} });
  vi.stubGlobal("addEventListener", () => {});
  vi.stubGlobal("removeEventListener", () => {});
  // What comes is handed on at once.
  vi.stubGlobal("requestAnimationFrame", (call: () => void) => queueMicrotask(call));
  vi.stubGlobal("cancelAnimationFrame", () => {});
  vi.stubGlobal("fetch", () => {
    return new Promise((resolve) => {
      answer = async (status, body) => {
        resolve(new Response(JSON.stringify(body), { status }));
        await settle();
      };
    });
  });
});

afterEach(() => {
  opened?.close();
  vi.unstubAllGlobals();
});

async function settle(): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve));
}

async function told(status: Status, version: number): Promise<void> {
  const chat = { status, snapshot_version: version, messages: 0 };
  const said = { id: String(version), event: "chat", data: chat };
  FakeSocket.last.onmessage?.({ data: JSON.stringify(said) });
  await settle();
}

async function asked(): Promise<{ chat: OpenChat; done: Promise<void> }> {
  const chat = new OpenChat("c");
  opened = chat;
  chat.open();
  await settle();
  await told("running", 3);
  const done = chat.interrupt();
  await settle();
  return { chat, done };
}

test("a stop is on its way until the server says that the turn stops", async () => {
  const { chat } = await asked();
  expect(chat.stopping.get()).toBe(true);
  await told("running", 4);
  expect(chat.stopping.get()).toBe(true);
  await told("interrupting", 5);
  expect(chat.stopping.get()).toBe(false);
});

test("a chat that goes on with what waits is not stopping, also when nobody saw it stop", async () => {
  const { chat } = await asked();
  await answer(202, { status: "interrupting", snapshot_version: 5 });
  expect(chat.stopping.get()).toBe(true);
  await told("running", 7);
  expect(chat.stopping.get()).toBe(false);
});

test("the same when the stream was faster than the answer", async () => {
  const { chat } = await asked();
  await told("running", 7);
  await answer(202, { status: "interrupting", snapshot_version: 5 });
  expect(chat.stopping.get()).toBe(false);
});

test("a stop that is refused is not on its way", async () => {
  const { chat, done } = await asked();
  const refused = expect(done).rejects.toThrow("Not so.");
  await answer(409, { kind: "x", status: 409, detail: "Not so." });
  await refused;
  expect(chat.stopping.get()).toBe(false);
});
