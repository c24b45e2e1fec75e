import { moment, when } from "../parts/words";

/** Short, for the eye; to the second for whoever points at it. */
export function When({ at }: { readonly at: number }) {
  return (
    <time dateTime={new Date(at / 1000).toISOString()} title={moment(at)}>
      {when(at, Date.now())}
    </time>
  );
}
