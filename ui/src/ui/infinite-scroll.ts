/** Calls back when the end of a paginated list comes near. */

interface Area {
  readonly root: Element | null;
  /** How far from the root's edges is near. */
  readonly rootMargin: string;
}

/** Calls back now if it is near, and each time that it comes near. Gives what stops that. */
export function onNearEnd(end: Element, area: Area, callback: () => void): () => void {
  const observer = new IntersectionObserver((changes) => {
    // A busy browser tells several at once: how it is now says the last.
    if (changes.at(-1)?.isIntersecting) callback();
  }, area);
  observer.observe(end);
  return () => observer.disconnect();
}
