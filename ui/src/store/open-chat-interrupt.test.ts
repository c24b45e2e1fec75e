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

let openChat: OpenChat | null = null;
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
  openChat?.close();
  vi.unstubAllGlobals();
});

async function settle(): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve));
}

async function sendSnapshot(status: Status, version: number): Promise<void> {
  const chat = { status, snapshot_version: version, messages: 0 };
  const said = { id: String(version), event: "chat", data: chat };
  FakeSocket.last.onmessage?.({ data: JSON.stringify(said) });
  await settle();
}

async function interrupt(): Promise<{ chat: OpenChat; done: Promise<void> }> {
  const chat = new OpenChat("c");
  openChat = chat;
  chat.open();
  await settle();
  await sendSnapshot("running", 3);
  const done = chat.interrupt();
  await settle();
  return { chat, done };
}

test("an interrupt is pending until the server confirms it", async () => {
  const { chat } = await interrupt();
  expect(chat.stopping.get()).toBe(true);
  await sendSnapshot("running", 4);
  expect(chat.stopping.get()).toBe(true);
  await sendSnapshot("interrupting", 5);
  expect(chat.stopping.get()).toBe(false);
});

test("a chat that continues with a queued message is not stopping, also if the stop was not seen", async () => {
  const { chat } = await interrupt();
  await answer(202, { status: "interrupting", snapshot_version: 5 });
  expect(chat.stopping.get()).toBe(true);
  await sendSnapshot("running", 7);
  expect(chat.stopping.get()).toBe(false);
});

test("the same when the stream was faster than the response", async () => {
  const { chat } = await interrupt();
  await sendSnapshot("running", 7);
  await answer(202, { status: "interrupting", snapshot_version: 5 });
  expect(chat.stopping.get()).toBe(false);
});

test("a refused interrupt is not pending", async () => {
  const { chat, done } = await interrupt();
  const refused = expect(done).rejects.toThrow("Not so.");
  await answer(409, { kind: "x", status: 409, detail: "Not so." });
  await refused;
  expect(chat.stopping.get()).toBe(false);
});
