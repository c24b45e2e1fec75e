import { afterEach, beforeEach, expect, test, vi } from "vitest";

const watched = new Set<unknown>();
let see: (changes: readonly object[]) => void;

beforeEach(() => {
  vi.resetModules();
  vi.useFakeTimers();
  watched.clear();
  vi.stubGlobal("window", {});
  vi.stubGlobal(
    "IntersectionObserver",
    class {
      constructor(seen: typeof see) {
        see = seen;
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

test("what comes near is told once, and not after it was stopped", async () => {
  const { whenVisible } = await import("./when-visible");
  const chunk = {};
  const [one, other] = [vi.fn(), vi.fn()];
  whenVisible(within(chunk), one);
  whenVisible(within(chunk), other)();
  see([{ target: chunk, isIntersecting: true }]);
  vi.runAllTimers();
  see([{ target: chunk, isIntersecting: true }]);
  vi.runAllTimers();
  expect(one).toHaveBeenCalledOnce();
  expect(other).not.toHaveBeenCalled();
});

test("what nobody waits for is not watched any more: it may be gone from the page", async () => {
  const { whenVisible } = await import("./when-visible");
  const chunk = {};
  const stops = [whenVisible(within(chunk), vi.fn()), whenVisible(within(chunk), vi.fn())];
  stops[0]?.();
  expect(watched.has(chunk)).toBe(true);
  stops[1]?.();
  expect(watched.has(chunk)).toBe(false);
});
