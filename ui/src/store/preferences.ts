/** Preferences of this browser: theme, sidebar, what is expanded. */

import { readStored, writeStored } from "../reactive/local-storage";
import { Store } from "../reactive/store";

export interface Preferences {
  readonly theme: "system" | "light" | "dark";
  /** `auto`: expanded while it grows, then collapsed. */
  readonly reasoning: "auto" | "open" | "closed";
  readonly output: "auto" | "open" | "closed";
  readonly sidebar: boolean;
  /** Pixels. */
  readonly sidebarWidth: number;
  /** Collapsed sections of the list. */
  readonly folded: readonly string[];
}

const DEFAULTS: Preferences = {
  theme: "system",
  reasoning: "auto",
  output: "auto",
  sidebar: true,
  sidebarWidth: 272,
  folded: [],
};

/** Stored preferences with defaults for missing or invalid values. */
export function validPreferences(stored: unknown): Preferences {
  const entries = Object.entries(typeof stored === "object" && stored !== null ? stored : {});
  const valid = entries.filter(([name, value]) => {
    const standard: unknown = Object.hasOwn(DEFAULTS, name)
      ? DEFAULTS[name as keyof Preferences]
      : undefined;
    return typeof value === typeof standard && Array.isArray(value) === Array.isArray(standard);
  });
  return { ...DEFAULTS, ...Object.fromEntries(valid) };
}

export const preferences = new Store<Preferences>(
  validPreferences(readStored<unknown>("preferences", {})),
);

export function setPreferences(change: Partial<Preferences>): void {
  preferences.change((before) => ({ ...before, ...change }));
  writeStored("preferences", preferences.get(), DEFAULTS);
}

// Follows changes made in another tab.
addEventListener("storage", ({ key }) => {
  if (key === "holdfast.preferences") {
    preferences.set(validPreferences(readStored<unknown>("preferences", {})));
  }
});
