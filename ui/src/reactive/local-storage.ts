/** Values in `localStorage`, per user. If it is full or forbidden, nothing is stored. */

const PREFIX = "holdfast.";
/** Names shared by all users of this browser. */
const OF_ALL = new Set(["preferences"]);
let user = "";

/** Sets the user whose values are read and written: users do not see each other's. */
export function setStorageUser(id: string): void {
  user = id;
}

export function storageUser(): string {
  return user;
}

function full(name: string): string {
  return OF_ALL.has(name) || user === "" ? PREFIX + name : `${PREFIX}${user}.${name}`;
}

export function readStored<T>(name: string, otherwise: T): T {
  try {
    const text = localStorage.getItem(full(name));
    return text === null ? otherwise : (JSON.parse(text) as T);
  } catch {
    return otherwise;
  }
}

/** Stores a value; one that equals `nothing` is removed instead. */
export function writeStored<T>(name: string, value: T, nothing: T): void {
  try {
    const text = JSON.stringify(value);
    if (text === JSON.stringify(nothing)) localStorage.removeItem(full(name));
    else localStorage.setItem(full(name), text);
  } catch {
    // It works without.
  }
}

export function removeStored(name: string): void {
  try {
    localStorage.removeItem(full(name));
  } catch {
    // Then there is nothing.
  }
}

/** All stored names with this prefix. */
export function storedNames(beginning: string): readonly string[] {
  try {
    const all = Array.from({ length: localStorage.length }, (_, at) => localStorage.key(at) ?? "");
    return all
      .filter((name) => name.startsWith(full(beginning)))
      .map((name) => name.slice(full("").length))
      .sort();
  } catch {
    return [];
  }
}

export function removeAllStored(beginning: string): void {
  for (const name of storedNames(beginning)) removeStored(name);
}

/** Calls back when another tab changes a value whose name has this prefix. */
export function onStoredElsewhere(beginning: string, tell: (name: string) => void): () => void {
  const hear = ({ key }: StorageEvent) => {
    if (key?.startsWith(full(beginning))) tell(key.slice(full("").length));
  };
  addEventListener("storage", hear);
  return () => removeEventListener("storage", hear);
}
