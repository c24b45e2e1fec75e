/** Values in `localStorage`, per user. If it is full or forbidden, nothing is stored. */

const PREFIX = "holdfast.";
/** Names shared by all users of this browser. */
const SHARED_NAMES = new Set(["preferences"]);
let user = "";

/** Sets the user whose values are read and written: users do not see each other's. */
export function setStorageUser(id: string): void {
  user = id;
}

export function storageUser(): string {
  return user;
}

function fullName(name: string): string {
  return SHARED_NAMES.has(name) || user === "" ? PREFIX + name : `${PREFIX}${user}.${name}`;
}

export function readStored<T>(name: string, fallback: T): T {
  try {
    const text = localStorage.getItem(fullName(name));
    return text === null ? fallback : (JSON.parse(text) as T);
  } catch {
    return fallback;
  }
}

/** Stores a value; one that equals `nothing` is removed instead. */
export function writeStored<T>(name: string, value: T, empty: T): void {
  try {
    const text = JSON.stringify(value);
    if (text === JSON.stringify(empty)) localStorage.removeItem(fullName(name));
    else localStorage.setItem(fullName(name), text);
  } catch {
    // The page works without storage.
  }
}

export function removeStored(name: string): void {
  try {
    localStorage.removeItem(fullName(name));
  } catch {
    // Without storage there is nothing to remove.
  }
}

/** All stored names with this prefix. */
export function storedNames(prefix: string): readonly string[] {
  try {
    const all = Array.from({ length: localStorage.length }, (_, at) => localStorage.key(at) ?? "");
    return all
      .filter((name) => name.startsWith(fullName(prefix)))
      .map((name) => name.slice(fullName("").length))
      .sort();
  } catch {
    return [];
  }
}

export function removeAllStored(prefix: string): void {
  for (const name of storedNames(prefix)) removeStored(name);
}

/** Calls back when another tab changes a value whose name has this prefix. */
export function onStoredElsewhere(prefix: string, callback: (name: string) => void): () => void {
  const onStorage = ({ key }: StorageEvent) => {
    if (key?.startsWith(fullName(prefix))) callback(key.slice(fullName("").length));
  };
  addEventListener("storage", onStorage);
  return () => removeEventListener("storage", onStorage);
}
