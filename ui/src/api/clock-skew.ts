/** Clock skew between the server and this browser, from the `Date` header of responses. */

import { Store } from "../reactive/store";

/** Milliseconds that the server's clock is ahead of this browser's, by its last response. */
export const clockSkew = new Store(0);

/** The skew from a response: its date is in whole seconds, written between the two times. */
export function skewOf(date: number, sentAt: number, receivedAt: number): number {
  const [least, most] = [date - receivedAt, date + 1_000 - sentAt];
  // Within the accuracy of the header they agree: nothing to correct.
  return least <= 0 && most >= 0 ? 0 : (least + most) / 2;
}

export function updateClockSkew(header: string | null, sentAt: number, receivedAt: number): void {
  const date = Date.parse(header ?? "");
  if (!Number.isNaN(date)) clockSkew.set(skewOf(date, sentAt, receivedAt));
}
