/**
 * The session key: the half of the credentials that a browser does not send by itself.
 *
 * A cookie is sent to every port of a host, and so to other programs on this machine. The key is
 * stored where only pages of this origin can read it, for all tabs and across reloads. Each tab
 * uses its key until it is refused: another tab may have signed in as another user, and requests of
 * this tab must not be sent in that user's name.
 */

const NAME = "holdfast.session-key";

let key: string | null = readStoredKey();

export function sessionKey(): string | null {
  return key;
}

/** Stores the key of a new session; other tabs read it from the storage. */
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
    // Without storage there is nothing to remove.
  }
  key = null;
}

/** Adopts the key of a tab that has signed in since. Returns whether there is one. */
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
