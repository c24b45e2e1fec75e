/** Reordering of queued messages; a message moves only among those of its delivery mode. Pure. */

import type { Queued } from "../api/types";

/** The places that a message may have, the first and the last. */
export function range(queue: readonly Queued[], id: string): readonly [number, number] {
  const kind = queue.find((each) => each.id === id)?.deliver;
  const first = queue.findIndex((each) => each.deliver === kind);
  return [first, queue.findLastIndex((each) => each.deliver === kind)];
}

/** As near to a place as it may go. The same queue when it stays where it is. */
export function reordered(queue: readonly Queued[], id: string, to: number): readonly Queued[] {
  const from = queue.findIndex((each) => each.id === id);
  const one = queue[from];
  if (one === undefined) return queue;
  const [first, last] = range(queue, id);
  const place = Math.min(last, Math.max(first, to));
  return place === from ? queue : queue.toSpliced(from, 1).toSpliced(place, 0, one);
}

/** The place of the row at a height, of rows that are given by where they end. */
export function indexAt(ends: readonly number[], height: number): number {
  const index = ends.findIndex((end) => height < end);
  return index === -1 ? ends.length - 1 : index;
}
