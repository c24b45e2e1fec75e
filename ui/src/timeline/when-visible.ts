/**
 * Calls back when an element comes near the viewport. Observed by chunk: a browser checks every
 * observed element each frame, and a chat may have thousands of code blocks.
 */

const waiting = new Map<Element, Set<() => void>>();
let watcher: IntersectionObserver | null = null;

function onIntersection(changes: readonly IntersectionObserverEntry[]): void {
  for (const { target, isIntersecting } of changes) {
    if (!isIntersecting) continue;
    watcher?.unobserve(target);
    const all = waiting.get(target) ?? [];
    waiting.delete(target);
    for (const then of all) then();
  }
}

/** Calls `then` once when the element comes near; the returned function cancels it. */
export function whenVisible(element: Element, then: () => void): () => void {
  const chunk = element.closest(".chunk");
  if (chunk === null) return whenIdle(then);
  watcher ??= new IntersectionObserver(onIntersection, { rootMargin: "600px" });
  let stop = () => {
    const all = waiting.get(chunk);
    all?.delete(start);
    if (all?.size !== 0) return;
    // No callback is left: the chunk may be removed from the page, and would leak.
    waiting.delete(chunk);
    watcher?.unobserve(chunk);
  };
  const start = () => {
    stop = whenIdle(then);
  };
  const callbacks = waiting.get(chunk);
  if (callbacks !== undefined) callbacks.add(start);
  else waiting.set(chunk, new Set([start]));
  watcher.observe(chunk);
  return () => stop();
}

/** Calls `then` when the browser is idle and the page is laid out; returns a cancel function. */
export function whenIdle(then: () => void): () => void {
  if ("requestIdleCallback" in window) {
    const id = requestIdleCallback(then, { timeout: 2_000 });
    return () => cancelIdleCallback(id);
  }
  const timer = setTimeout(then, 50);
  return () => clearTimeout(timer);
}
