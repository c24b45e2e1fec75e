/** Whether the server is unreachable, once for the whole page, however many streams are broken. */

import { Store } from "../reactive/store";

export interface Outage {
  /** Time of the next attempt, by this page's clock. */
  readonly retryAt: number;
  /** Number of that attempt. */
  readonly tries: number;
}

interface Retryable {
  retry(): void;
}

/** Null while all streams are connected. */
export const outage = new Store<Outage | null>(null);

const broken = new Map<Retryable, Outage>();

export function reportBroken(stream: Retryable, state: Outage): void {
  broken.set(stream, state);
  publish();
}

/** The stream is connected again, or closed. */
export function clearBroken(stream: Retryable): void {
  if (broken.delete(stream)) publish();
}

/** One stream reconnected: the others retry at once. */
export function reportReconnected(stream: Retryable): void {
  clearBroken(stream);
  retryAll();
}

/** Retries all broken streams now. */
export function retryAll(): void {
  for (const each of [...broken.keys()]) each.retry();
}

/** Publishes the stream whose retry comes first. */
function publish(): void {
  const all = [...broken.values()].toSorted((one, other) => one.retryAt - other.retryAt);
  outage.set(all[0] ?? null);
}
