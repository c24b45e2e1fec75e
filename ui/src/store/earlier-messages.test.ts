import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { type Browser, connected, fakeBrowser, restoreBrowser } from "../api/fake-browser";
import type { ChatEvent, Stored } from "../api/types";
import { chatEvent, messageEvent, prompt, reset } from "./fixtures";
import { OpenChat } from "./open-chat";

let browser: Browser;
let chat: OpenChat;
let asked: string[];
let answer: (messages: readonly Stored[], next: number | null) => Promise<void>;

beforeEach(() => {
  browser = fakeBrowser();
  asked = [];
  vi.stubGlobal("fetch", (url: string) => {
    asked.push(new URL(url, "http://page").searchParams.get("before") ?? "");
    return new Promise((resolve) => {
      answer = async (messages, next) => {
        resolve(new Response(JSON.stringify({ messages, next })));
        await vi.advanceTimersByTimeAsync(0);
      };
    });
  });
  chat = new OpenChat("c1");
  connected(browser, chat);
});

afterEach(() => {
  chat.close();
  restoreBrowser();
});

function applyToChat(...events: readonly ChatEvent[]): void {
  for (const { event, data, id } of events) browser.last.say(event, data, id);
  vi.advanceTimersByTime(16);
}

const numbers = () => chat.transcript.get().messages.map(({ number }) => number);
const said = (number: number) => prompt(number, String(number));

test("what an edit took out while it was read is not shown", async () => {
  applyToChat(
    chatEvent({ messages: 5 }),
    reset("history", 4),
    messageEvent(said(4)),
    messageEvent(said(5)),
  );
  void chat.readEarlier();
  applyToChat(
    { id: null, event: "superseded", data: { numbers: [2, 3, 4, 5] } },
    messageEvent(said(6)),
    chatEvent({ messages: 6, snapshot_version: 2 }),
  );
  await answer([said(2), said(3)], 2);
  expect(numbers()).toEqual([6]);
  await answer([said(1)], null);
  expect(asked).toEqual(["4", "4"]);
  expect(numbers()).toEqual([1, 6]);
  expect(chat.earlier.get()).toEqual({ is: "rest" });
});

test("what was read of a history that began anew is of no use", async () => {
  applyToChat(
    chatEvent({ messages: 5 }),
    reset("history", 4),
    messageEvent(said(4)),
    messageEvent(said(5)),
  );
  void chat.readEarlier();
  applyToChat(reset("history", 5), messageEvent(said(5)));
  await answer([said(2), said(3)], 2);
  expect(numbers()).toEqual([5]);
  expect(asked).toEqual(["4"]);
});
