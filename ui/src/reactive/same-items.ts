/** Whether two lists hold identical items in the same order. */

export function sameItems(one: readonly unknown[], other: readonly unknown[]): boolean {
  return one.length === other.length && one.every((each, at) => Object.is(each, other[at]));
}
