import { expect, test } from "vitest";
import type { Chat } from "../api/types";
import { second, when } from "../ui/format";
import { begunOf } from "./duplicate-titles";
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

test("chats of one name say when they began, wherever they stand in the list", () => {
  const [first, later] = [NOW * 1000, NOW * 1000 + 5 * MINUTE];
  const shown = [partOf(chatOf("a", "Prices", first), chatOf("b", "Other", first))];
  expect([...begunOf(shown, NOW)]).toEqual([]);
  const more = [...shown, partOf(chatOf("c", "prices", later))];
  expect([...begunOf(more, NOW)]).toEqual([
    ["a", when(first, NOW)],
    ["c", when(later, NOW)],
  ]);
});

test("those that began in one minute say it to the second", () => {
  const began = NOW * 1000;
  const times = [began, began + 5 * SECOND, began - 5 * MINUTE];
  const shown = [partOf(...times.map((each, at) => chatOf(`${at}`, "Prices", each)))];
  expect([...begunOf(shown, NOW).values()]).toEqual([
    second(began),
    second(began + 5 * SECOND),
    when(began - 5 * MINUTE, NOW),
  ]);
});
