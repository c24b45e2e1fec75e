/**
 * The session key: the half of the credentials that a browser does not send by itself.
 *
 * A cookie goes to every port of a host, and so to other programs on this machine. The key is kept
 * where only pages of this very origin can read it, for all its tabs and over reloads. Each tab
 * uses the key it has until that is refused: another tab may have signed in as another user, and
 * nothing of this one may be sent in their name.
 */

const NAME = "holdfast.session-key";

let key: string | null = readStoredKey();

export function sessionKey(): string | null {
  return key;
}

/** After a sign-in here: other tabs take it from the storage. */
export function storeSessionKey(newKey: string): void {
  key = newKey;
  try {
    localStorage.setItem(NAME, newKey);
  } catch {
    // Without storage, the session lasts as long as this page.
  }
}

export function forgetSessionKey(): void {
  try {
    if (readStoredKey() === key) localStorage.removeItem(NAME);
  } catch {
    // Then there is nothing.
  }
  key = null;
}

/** Take the key of another tab that has signed in since. Whether there is one. */
export function adoptSessionKey(): boolean {
  const other = readStoredKey();
  if (other === null || other === key) return false;
  key = other;
  return true;
}

/** Calls back when another tab signs in. */
export function onSignInElsewhere(callback: () => void): void {
  addEventListener("storage", (event) => {
    if (event.key === NAME && event.newValue !== null) callback();
  });
}

function readStoredKey(): string | null {
  try {
    return localStorage.getItem(NAME);
  } catch {
    return null;
  }
}
