/** What the server's clock says, where this browser's may be wrong. */

import { Store } from "../state/store";

/** By how much it is ahead of this one, in milliseconds, as its last answer said. */
export const ahead = new Store(0);

/** Its date has no fractions of a second, and was written somewhere between the two times. */
export function aheadBy(date: number, asked: number, answered: number): number {
  const [least, most] = [date - answered, date + 1_000 - asked];
  // As far as anybody can tell they agree; then there is nothing to mend.
  return least <= 0 && most >= 0 ? 0 : (least + most) / 2;
}

export function noteDate(header: string | null, asked: number, answered: number): void {
  const date = Date.parse(header ?? "");
  if (!Number.isNaN(date)) ahead.set(aheadBy(date, asked, answered));
}
