/** Reordering of queued messages; a message moves only among those of its delivery mode. Pure. */

import type { Queued } from "../api/types";

/** The first and last index that a message may have. */
export function range(queue: readonly Queued[], id: string): readonly [number, number] {
  const kind = queue.find((each) => each.id === id)?.deliver;
  const first = queue.findIndex((each) => each.deliver === kind);
  return [first, queue.findLastIndex((each) => each.deliver === kind)];
}

/** The queue with a message moved towards an index. The same array if nothing moves. */
export function reordered(queue: readonly Queued[], id: string, to: number): readonly Queued[] {
  const from = queue.findIndex((each) => each.id === id);
  const one = queue[from];
  if (one === undefined) return queue;
  const [first, last] = range(queue, id);
  const place = Math.min(last, Math.max(first, to));
  return place === from ? queue : queue.toSpliced(from, 1).toSpliced(place, 0, one);
}

/** The index of the row at a height; `ends`: the bottoms of the rows. */
export function indexAt(ends: readonly number[], height: number): number {
  const index = ends.findIndex((end) => height < end);
  return index === -1 ? ends.length - 1 : index;
}
