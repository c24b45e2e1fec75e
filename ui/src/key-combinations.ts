/** Key combinations: matching a keyboard event, and the labels of keys. Pure. */

export const IS_MAC =
  typeof navigator !== "undefined" && /Mac|iPhone|iPad/.test(navigator.platform ?? "");

interface Pressed {
  readonly key: string;
  readonly code: string;
  readonly altKey: boolean;
  readonly ctrlKey: boolean;
  readonly metaKey: boolean;
  readonly shiftKey: boolean;
}

/** `combination`: "mod+k", "alt+n", "alt+arrowup", "?". `mod` is Ctrl, on a Mac Cmd. */
export function isPressed(event: Pressed, combination: string, isMac = IS_MAC): boolean {
  const parts = combination.toLowerCase().split("+");
  const key = parts.pop() ?? "";
  const wants = (name: string) => parts.includes(name);
  const mod = isMac ? event.metaKey : event.ctrlKey;
  const otherMod = isMac ? event.ctrlKey : event.metaKey;
  if (otherMod || mod !== wants("mod") || event.altKey !== wants("alt")) return false;
  // A character like "?" needs Shift on some keyboards only.
  if (/^[a-z0-9]$|^.{2,}$/.test(key) && event.shiftKey !== wants("shift")) return false;
  // With Alt a Mac produces another letter: compare the physical key.
  return event.key.toLowerCase() === key || (wants("alt") && event.code === codeOf(key));
}

function codeOf(key: string): string {
  return key.length === 1 ? `Key${key.toUpperCase()}` : key;
}

const MAC: Readonly<Record<string, string>> = { Ctrl: "⌘", Alt: "⌥", Shift: "⇧", Enter: "↵" };

/** The key labels of a combination like "Ctrl+K". */
export function keysOf(combination: string, isMac = IS_MAC): readonly string[] {
  return combination.split("+").map((key) => (isMac ? (MAC[key] ?? key) : key));
}
