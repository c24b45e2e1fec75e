import { afterEach, beforeEach, expect, test, vi } from "vitest";

const watched = new Set<unknown>();
let intersect: (changes: readonly object[]) => void;

beforeEach(() => {
  vi.resetModules();
  vi.useFakeTimers();
  watched.clear();
  vi.stubGlobal("window", {});
  vi.stubGlobal(
    "IntersectionObserver",
    class {
      constructor(seen: typeof intersect) {
        intersect = seen;
      }
      observe = (element: unknown) => void watched.add(element);
      unobserve = (element: unknown) => void watched.delete(element);
    },
  );
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

const within = (chunk: object) => ({ closest: () => chunk }) as unknown as Element;

test("the callback runs once when the element comes near, and not after it was cancelled", async () => {
  const { whenVisible } = await import("./when-visible");
  const chunk = {};
  const [one, other] = [vi.fn(), vi.fn()];
  whenVisible(within(chunk), one);
  whenVisible(within(chunk), other)();
  intersect([{ target: chunk, isIntersecting: true }]);
  vi.runAllTimers();
  intersect([{ target: chunk, isIntersecting: true }]);
  vi.runAllTimers();
  expect(one).toHaveBeenCalledOnce();
  expect(other).not.toHaveBeenCalled();
});

test("an element without callbacks is no longer observed: it may be removed from the page", async () => {
  const { whenVisible } = await import("./when-visible");
  const chunk = {};
  const stops = [whenVisible(within(chunk), vi.fn()), whenVisible(within(chunk), vi.fn())];
  stops[0]?.();
  expect(watched.has(chunk)).toBe(true);
  stops[1]?.();
  expect(watched.has(chunk)).toBe(false);
});
