/** Whether the server is unreachable, once for the whole page, however many streams are broken. */

import { Store } from "../reactive/store";

export interface Outage {
  /** When it is tried again next, by this page's clock. */
  readonly retryAt: number;
  /** For the nth time. */
  readonly tries: number;
}

interface Breakable {
  retry(): void;
}

/** Null while no line is broken. */
export const outage = new Store<Outage | null>(null);

const broken = new Map<Breakable, Outage>();

export function isBroken(line: Breakable, how: Outage): void {
  broken.set(line, how);
  tell();
}

/** It is mended, or no longer needed. */
export function isOver(line: Breakable): void {
  if (broken.delete(line)) tell();
}

/** Where one gets through, so do the others. */
export function isBack(line: Breakable): void {
  isOver(line);
  retryAll();
}

/** Now, and not when their time has come. */
export function retryAll(): void {
  for (const each of [...broken.keys()]) each.retry();
}

/** What comes first is what a person waits for. */
function tell(): void {
  const all = [...broken.values()].toSorted((one, other) => one.retryAt - other.retryAt);
  outage.set(all[0] ?? null);
}
