/** One request to the API, checked against the operations that the server has. */

import { Store } from "../state/store";
import { noteDate } from "./ahead";
import { Problem, told, unreachable } from "./problem";
import { type Operations, PREFIX } from "./schema";
import type { Me } from "./types";

/** Whom the cookie stands for, as the server said last; null before one has signed in. */
export const caller = new Store<Me | null>(null);

type Needed<Name extends string, Value> = [Value] extends [undefined]
  ? { readonly [Each in Name]?: undefined }
  : undefined extends Value
    ? { readonly [Each in Name]?: Value }
    : { readonly [Each in Name]: Value };

type Given<Name extends keyof Operations> = Needed<"path", Operations[Name]["path"]> & {
  readonly query?: Operations[Name]["query"];
  /** Under which it is carried out once, however often it is sent. */
  readonly key?: string;
  readonly signal?: AbortSignal;
  /** Of a body that is no JSON. */
  readonly media?: string;
  /** Whoever it stands for asks, and not whom the cookie stands for. */
  readonly token?: string;
} & Needed<"body", Operations[Name]["body"]>;

/** Gives what the server answers, or raises a `Problem`. */
export async function call<Name extends keyof Operations>(
  operation: Name,
  given: Given<Name>,
): Promise<Operations[Name]["answer"]> {
  return await renewing(() => sent(operation, given));
}

/** Once more when what it showed of the cookie was of one before. */
export async function renewing<T>(ask: () => Promise<T>): Promise<T> {
  try {
    return await ask();
  } catch (error) {
    const isStale = error instanceof Problem && error.kind === "csrf";
    if (!isStale || !(await isRenewed())) throw error;
  }
  return await ask();
}

/** Another tab may have signed in anew, and the cookie is one for all. Not as somebody else. */
async function isRenewed(): Promise<boolean> {
  const before = caller.get();
  const me = await sent("GET /me", {});
  caller.set(me);
  return before !== null && me.user === before.user && me.csrf !== before.csrf;
}

async function sent<Name extends keyof Operations>(
  operation: Name,
  given: Given<Name>,
): Promise<Operations[Name]["answer"]> {
  const [method = "GET", template = ""] = operation.split(" ");
  const response = await fetched(PREFIX + filled(template, given.path) + asked(given.query), {
    method,
    headers: headersOf(method, given),
    body: bodyOf(given),
    signal: given.signal ?? null,
    credentials: given.token === undefined ? "same-origin" : "omit",
  });
  if (!response.ok) throw await problemOf(response);
  if (response.status === 204) return undefined as Operations[Name]["answer"];
  try {
    return (await response.json()) as Operations[Name]["answer"];
  } catch {
    throw unreachable(); // it broke off, or something in between speaks for the server
  }
}

async function fetched(url: string, init: RequestInit): Promise<Response> {
  const asked = Date.now();
  try {
    const response = await fetch(url, init);
    noteDate(response.headers.get("Date"), asked, Date.now());
    return response;
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw unreachable();
  }
}

function filled(template: string, path: Readonly<Record<string, unknown>> | undefined): string {
  return template.replace(/\{(\w+)\}/g, (_, name) => encodeURIComponent(String(path?.[name])));
}

function asked(query: object | undefined): string {
  const given = Object.entries(query ?? {}).filter(([, value]) => value != null);
  const text = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  return text && `?${text}`;
}

type AnyGiven = { body?: unknown; key?: string; media?: string; token?: string };

function headersOf(method: string, { body, key, media, token }: AnyGiven): Headers {
  const headers = new Headers({ Accept: "application/json" });
  if (body !== undefined) headers.set("Content-Type", media ?? "application/json");
  if (key !== undefined) headers.set("Idempotency-Key", key);
  if (token !== undefined) headers.set("Authorization", `Bearer ${token}`);
  const shown = caller.get()?.csrf;
  if (method !== "GET" && shown) headers.set("X-CSRF-Token", shown);
  return headers;
}

function bodyOf({ body, media }: AnyGiven): BodyInit | null {
  if (body === undefined) return null;
  return media === undefined ? JSON.stringify(body) : (body as BodyInit);
}

async function problemOf(response: Response): Promise<Problem> {
  const body: unknown = await response.json().catch(() => null);
  return told(body, response.status, response.statusText);
}
