import { expect, test } from "vitest";
import type { Chat } from "../api/types";
import { shortTime, timeWithSeconds } from "../ui/format";
import { startTimesOf } from "./duplicate-titles";
import type { Section } from "./sections";

const NOW = new Date(2026, 10, 16, 14, 0).getTime();
const SECOND = 1_000_000;
const MINUTE = 60 * SECOND;

function chatOf(id: string, title: string, created_at: number): Chat {
  return { id, title, created_at } as Chat;
}

function partOf(...rows: Chat[]): Section {
  return { key: "today", name: "Today", isOpen: true, count: rows.length, rows };
}

test("chats with the same name have their start time, wherever they are in the list", () => {
  const [first, later] = [NOW * 1000, NOW * 1000 + 5 * MINUTE];
  const shown = [partOf(chatOf("a", "Prices", first), chatOf("b", "Other", first))];
  expect([...startTimesOf(shown, NOW)]).toEqual([]);
  const more = [...shown, partOf(chatOf("c", "prices", later))];
  expect([...startTimesOf(more, NOW)]).toEqual([
    ["a", shortTime(first, NOW)],
    ["c", shortTime(later, NOW)],
  ]);
});

test("chats started in the same minute have their start time to the second", () => {
  const began = NOW * 1000;
  const times = [began, began + 5 * SECOND, began - 5 * MINUTE];
  const shown = [partOf(...times.map((each, at) => chatOf(`${at}`, "Prices", each)))];
  expect([...startTimesOf(shown, NOW).values()]).toEqual([
    timeWithSeconds(began),
    timeWithSeconds(began + 5 * SECOND),
    shortTime(began - 5 * MINUTE, NOW),
  ]);
});
