/**
 * When something comes near the screen. Watched by chunk: a browser looks at everything that is
 * watched for each of its frames, and there may be thousands of blocks of code in a chat.
 */

const waiting = new Map<Element, Set<() => void>>();
let watcher: IntersectionObserver | null = null;

function seen(changes: readonly IntersectionObserverEntry[]): void {
  for (const { target, isIntersecting } of changes) {
    if (!isIntersecting) continue;
    watcher?.unobserve(target);
    const all = waiting.get(target) ?? [];
    waiting.delete(target);
    for (const then of all) then();
  }
}

/** Called once; never after what is given back was called. */
export function whenNear(element: Element, then: () => void): () => void {
  const chunk = element.closest(".chunk");
  if (chunk === null) return whenIdle(then);
  watcher ??= new IntersectionObserver(seen, { rootMargin: "600px" });
  let stop = () => {
    const all = waiting.get(chunk);
    all?.delete(start);
    if (all?.size !== 0) return;
    // Nobody waits: it may be gone from the page, and would be kept for ever.
    waiting.delete(chunk);
    watcher?.unobserve(chunk);
  };
  const start = () => {
    stop = whenIdle(then);
  };
  const there = waiting.get(chunk);
  if (there !== undefined) there.add(start);
  else waiting.set(chunk, new Set([start]));
  watcher.observe(chunk);
  return () => stop();
}

/** When the browser has nothing better to do: then the page is laid out, too. */
export function whenIdle(then: () => void): () => void {
  if ("requestIdleCallback" in window) {
    const id = requestIdleCallback(then, { timeout: 2_000 });
    return () => cancelIdleCallback(id);
  }
  const timer = setTimeout(then, 50);
  return () => clearTimeout(timer);
}
