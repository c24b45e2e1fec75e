/** Calls back when the end of a paginated list comes near. */

interface Area {
  readonly root: Element | null;
  /** Distance from the root's edges that counts as near. */
  readonly rootMargin: string;
}

/** Calls back now if the end is near, and each time it comes near. Returns a stop function. */
export function onNearEnd(end: Element, area: Area, callback: () => void): () => void {
  const observer = new IntersectionObserver((changes) => {
    // A busy browser reports several changes at once: the last one is current.
    if (changes.at(-1)?.isIntersecting) callback();
  }, area);
  observer.observe(end);
  return () => observer.disconnect();
}
