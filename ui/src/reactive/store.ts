/** A value with subscribers, and a hook to read it. */

import { useSyncExternalStore } from "react";

export class Store<T> {
  #value: T;
  readonly #watchers = new Set<() => void>();

  constructor(value: T) {
    this.#value = value;
  }

  readonly get = (): T => this.#value;

  /** Sets the value, and calls the watchers if it changed. */
  set(value: T): void {
    if (Object.is(value, this.#value)) return;
    this.#value = value;
    for (const watcher of this.#watchers) watcher();
  }

  change(by: (value: T) => T): void {
    this.set(by(this.#value));
  }

  readonly subscribe = (watcher: () => void): (() => void) => {
    this.#watchers.add(watcher);
    return () => this.#watchers.delete(watcher);
  };
}

/** The value of a store, or a part of it. `pick` must return the same object for the same value. */
export function useStore<T>(store: Store<T>): T;
export function useStore<T, U>(store: Store<T>, pick: (value: T) => U): U;
export function useStore<T, U>(store: Store<T>, pick?: (value: T) => U): T | U {
  const get = () => (pick === undefined ? store.get() : pick(store.get()));
  return useSyncExternalStore(store.subscribe, get);
}
