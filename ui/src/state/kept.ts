/** What this browser keeps between visits. It may be full, or forbidden: then nothing is kept. */

const PREFIX = "holdfast.";
/** What belongs to the browser, whoever sits in front of it. */
const OF_ALL = new Set(["preferences"]);
let user = "";

/** From now on it is this user's: the next one is not shown what they wrote. */
export function keepFor(id: string): void {
  user = id;
}

export function keptFor(): string {
  return user;
}

function full(name: string): string {
  return OF_ALL.has(name) || user === "" ? PREFIX + name : `${PREFIX}${user}.${name}`;
}

export function kept<T>(name: string, otherwise: T): T {
  try {
    const text = localStorage.getItem(full(name));
    return text === null ? otherwise : (JSON.parse(text) as T);
  } catch {
    return otherwise;
  }
}

/** `nothing`: what is not worth a place. */
export function keep<T>(name: string, value: T, nothing: T): void {
  try {
    const text = JSON.stringify(value);
    if (text === JSON.stringify(nothing)) localStorage.removeItem(full(name));
    else localStorage.setItem(full(name), text);
  } catch {
    // It works without.
  }
}

export function forget(name: string): void {
  try {
    localStorage.removeItem(full(name));
  } catch {
    // Then there is nothing.
  }
}

/** All names that begin so. */
export function keptNames(beginning: string): readonly string[] {
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

export function forgetAll(beginning: string): void {
  for (const name of keptNames(beginning)) forget(name);
}

/** Calls back when another tab of this browser keeps something else under a name that begins so. */
export function whenKeptElsewhere(beginning: string, tell: (name: string) => void): () => void {
  const hear = ({ key }: StorageEvent) => {
    if (key?.startsWith(full(beginning))) tell(key.slice(full("").length));
  };
  addEventListener("storage", hear);
  return () => removeEventListener("storage", hear);
}
