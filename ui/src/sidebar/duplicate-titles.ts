/** Start times for chats with the same title, such as forks, to tell them apart. Pure. */

import type { Chat } from "../api/types";
import { chatName, shortTime, timeWithSeconds } from "../ui/format";
import type { Section } from "./sections";

/** Start times of chats that share their name with another one, by id. */
export function startTimesOf(shown: readonly Section[], now: number): ReadonlyMap<string, string> {
  const byName = new Map<string, Chat[]>();
  for (const chat of shown.flatMap(({ rows }) => rows)) {
    // A fork first has the same first words as its origin.
    const name = chatName(chat).toLowerCase();
    const sameName = byName.get(name);
    if (sameName === undefined) byName.set(name, [chat]);
    else sameName.push(chat);
  }
  const groups = [...byName.values()].filter(({ length }) => length > 1);
  return new Map(groups.flatMap((chats) => timesOf(chats, now)));
}

function timesOf(chats: readonly Chat[], now: number): [string, string][] {
  const times = chats.map(({ created_at }) => shortTime(created_at, now));
  return chats.map(({ id, created_at }, at) => {
    const time = times[at] ?? "";
    const isAlone = times.indexOf(time) === times.lastIndexOf(time);
    return [id, isAlone ? time : timeWithSeconds(created_at)];
  });
}
