import { afterEach, beforeEach, expect, test, vi } from "vitest";

const watched = new Set<unknown>();
let intersect: (changes: readonly object[]) => void;
let resize: () => void;

beforeEach(() => {
  vi.resetModules();
  vi.useFakeTimers();
  watched.clear();
  vi.stubGlobal("window", {});
  vi.stubGlobal("addEventListener", (_: string, hear: () => void) => {
    resize = hear;
  });
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

const within = (chunk: object, isSeen: boolean) =>
  ({ closest: () => chunk, checkVisibility: () => isSeen }) as unknown as HTMLElement;

test("a visible element is measured at once, and a hidden one when it comes near", async () => {
  const { onResize } = await import("./on-resize");
  const [here, far] = [vi.fn(), vi.fn()];
  const chunk = {};
  onResize(within({}, true), here);
  onResize(within(chunk, false), far);
  resize();
  vi.runAllTimers();
  expect(here).toHaveBeenCalledOnce();
  expect(far).not.toHaveBeenCalled();
  intersect([{ target: chunk, isIntersecting: true }]);
  vi.runAllTimers();
  expect(far).toHaveBeenCalledOnce();
});

test("a removed element is no longer observed", async () => {
  const { onResize } = await import("./on-resize");
  const chunk = {};
  const stop = onResize(within(chunk, false), vi.fn());
  resize();
  vi.runAllTimers();
  expect(watched.has(chunk)).toBe(true);
  stop();
  expect(watched.has(chunk)).toBe(false);
  resize();
  vi.runAllTimers();
  expect(watched.has(chunk)).toBe(false);
});
