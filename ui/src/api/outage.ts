/** Whether the server is unreachable, once for the whole page, however many streams are broken. */

import { Store } from "../reactive/store";

export interface Outage {
  /** When it is tried again next, by this page's clock. */
  readonly retryAt: number;
  /** For the nth time. */
  readonly tries: number;
}

interface Retryable {
  retry(): void;
}

/** Null while no line is broken. */
export const outage = new Store<Outage | null>(null);

const broken = new Map<Retryable, Outage>();

export function reportBroken(stream: Retryable, state: Outage): void {
  broken.set(stream, state);
  publish();
}

/** It is mended, or no longer needed. */
export function clearBroken(stream: Retryable): void {
  if (broken.delete(stream)) publish();
}

/** Where one gets through, so do the others. */
export function reportReconnected(stream: Retryable): void {
  clearBroken(stream);
  retryAll();
}

/** Now, and not when their time has come. */
export function retryAll(): void {
  for (const each of [...broken.keys()]) each.retry();
}

/** What comes first is what a person waits for. */
function publish(): void {
  const all = [...broken.values()].toSorted((one, other) => one.retryAt - other.retryAt);
  outage.set(all[0] ?? null);
}
