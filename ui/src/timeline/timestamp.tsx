/** The time of a message: short, with the full time as its tooltip. */

import { fullTime, shortTime } from "../ui/format";

/** Short text, with the time to the second as tooltip. */
export function Timestamp({ at }: { readonly at: number }) {
  return (
    <time dateTime={new Date(at / 1000).toISOString()} title={fullTime(at)}>
      {shortTime(at, Date.now())}
    </time>
  );
}
