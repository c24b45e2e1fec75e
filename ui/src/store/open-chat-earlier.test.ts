import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { type Browser, connect, fakeBrowser, restoreBrowser } from "../api/fake-browser";
import type { ChatEvent, Stored } from "../api/types";
import { chatEvent, messageEvent, prompt, reset } from "./fixtures";
import { OpenChat } from "./open-chat";

let browser: Browser;
let chat: OpenChat;
let requests: string[];
let answer: (messages: readonly Stored[], next: number | null) => Promise<void>;

beforeEach(() => {
  browser = fakeBrowser();
  requests = [];
  vi.stubGlobal("fetch", (url: string) => {
    requests.push(new URL(url, "http://page").searchParams.get("before") ?? "");
    return new Promise((resolve) => {
      answer = async (messages, next) => {
        resolve(new Response(JSON.stringify({ messages, next })));
        await vi.advanceTimersByTimeAsync(0);
      };
    });
  });
  chat = new OpenChat("c1");
  connect(browser, chat);
});

afterEach(() => {
  chat.close();
  restoreBrowser();
});

function applyToChat(...events: readonly ChatEvent[]): void {
  for (const { event, data, id } of events) browser.last.send(event, data, id);
  vi.advanceTimersByTime(16);
}

const numbers = () => chat.transcript.get().messages.map(({ number }) => number);
const promptAt = (number: number) => prompt(number, String(number));

test("messages superseded during the request are not shown", async () => {
  applyToChat(
    chatEvent({ messages: 5 }),
    reset("history", 4),
    messageEvent(promptAt(4)),
    messageEvent(promptAt(5)),
  );
  void chat.readEarlier();
  applyToChat(
    { id: null, event: "superseded", data: { numbers: [2, 3, 4, 5] } },
    messageEvent(promptAt(6)),
    chatEvent({ messages: 6, snapshot_version: 2 }),
  );
  await answer([promptAt(2), promptAt(3)], 2);
  expect(numbers()).toEqual([6]);
  await answer([promptAt(1)], null);
  expect(requests).toEqual(["4", "4"]);
  expect(numbers()).toEqual([1, 6]);
  expect(chat.earlier.get()).toEqual({ is: "rest" });
});

test("a page of a history that was reset is dropped", async () => {
  applyToChat(
    chatEvent({ messages: 5 }),
    reset("history", 4),
    messageEvent(promptAt(4)),
    messageEvent(promptAt(5)),
  );
  void chat.readEarlier();
  applyToChat(reset("history", 5), messageEvent(promptAt(5)));
  await answer([promptAt(2), promptAt(3)], 2);
  expect(numbers()).toEqual([5]);
  expect(requests).toEqual(["4"]);
});
