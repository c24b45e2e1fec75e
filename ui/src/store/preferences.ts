/** Preferences of this browser: theme, sidebar, what is expanded. */

import { readStored, writeStored } from "../reactive/local-storage";
import { Store } from "../reactive/store";

export interface Preferences {
  readonly theme: "system" | "light" | "dark";
  /** `auto`: open while it grows, then folded. */
  readonly reasoning: "auto" | "open" | "closed";
  readonly output: "auto" | "open" | "closed";
  readonly sidebar: boolean;
  /** Pixels. */
  readonly sidebarWidth: number;
  /** Parts of the list that are folded. */
  readonly folded: readonly string[];
}

const USUAL: Preferences = {
  theme: "system",
  reasoning: "auto",
  output: "auto",
  sidebar: true,
  sidebarWidth: 272,
  folded: [],
};

/** What was kept by another version of this page, or by hand, is taken as far as it fits. */
export function fitting(found: unknown): Preferences {
  const given = Object.entries(typeof found === "object" && found !== null ? found : {});
  const good = given.filter(([name, value]) => {
    const usual: unknown = Object.hasOwn(USUAL, name)
      ? USUAL[name as keyof Preferences]
      : undefined;
    return typeof value === typeof usual && Array.isArray(value) === Array.isArray(usual);
  });
  return { ...USUAL, ...Object.fromEntries(good) };
}

export const preferences = new Store<Preferences>(fitting(readStored<unknown>("preferences", {})));

export function prefer(change: Partial<Preferences>): void {
  preferences.change((before) => ({ ...before, ...change }));
  writeStored("preferences", preferences.get(), USUAL);
}

// Another tab of this browser follows.
addEventListener("storage", ({ key }) => {
  if (key === "holdfast.preferences") {
    preferences.set(fitting(readStored<unknown>("preferences", {})));
  }
});
