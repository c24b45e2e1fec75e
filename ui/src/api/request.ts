/** A typed request to the API, checked against the operations of the generated schema. */

import { Store } from "../reactive/store";
import { updateClockSkew } from "./clock-skew";
import { Problem, problemFrom, unreachable } from "./problem";
import { type Operations, PREFIX } from "./schema";
import { adoptSessionKey, sessionKey } from "./session-key";
import type { Me } from "./types";

/** The user of the cookie, as last reported by the server; null before signing in. */
export const currentUser = new Store<Me | null>(null);

type Needed<Name extends string, Value> = [Value] extends [undefined]
  ? { readonly [Each in Name]?: undefined }
  : undefined extends Value
    ? { readonly [Each in Name]?: Value }
    : { readonly [Each in Name]: Value };

type RequestOptions<Name extends keyof Operations> = Needed<"path", Operations[Name]["path"]> & {
  readonly query?: Operations[Name]["query"];
  /** Idempotency key. */
  readonly key?: string;
  readonly signal?: AbortSignal;
  /** Content type of a body that is not JSON. */
  readonly media?: string;
  /** Authenticates the request instead of the cookie. */
  readonly token?: string;
} & Needed<"body", Operations[Name]["body"]>;

/** Returns the server's answer, or throws a `Problem`. */
export async function call<Name extends keyof Operations>(
  operation: Name,
  options: RequestOptions<Name>,
): Promise<Operations[Name]["answer"]> {
  if (options.token !== undefined) return await sendOnce(operation, options);
  return await withRenewedSession(() => sendOnce(operation, options), operation.startsWith("GET "));
}

/** Repeats a request once if another tab has replaced the session. */
export async function withRenewedSession<T>(
  ask: () => Promise<T>,
  changesNothing = false,
): Promise<T> {
  try {
    return await ask();
  } catch (error) {
    const isStale = error instanceof Problem && error.status === 401;
    if (!isStale || !(await renewSession(changesNothing))) throw error;
  }
  return await ask();
}

/**
 * Adopts the session of another tab. Returns whether the request may be repeated: not as another
 * user. Before this page knows its user, only requests that change nothing may be.
 */
async function renewSession(changesNothing: boolean): Promise<boolean> {
  if (!adoptSessionKey()) return false;
  const before = currentUser.get();
  const me = await sendOnce("GET /me", {});
  currentUser.set(me);
  return before === null ? changesNothing : me.user === before.user;
}

async function sendOnce<Name extends keyof Operations>(
  operation: Name,
  options: RequestOptions<Name>,
): Promise<Operations[Name]["answer"]> {
  const [method = "GET", template = ""] = operation.split(" ");
  const response = await fetchResponse(
    PREFIX + fillPath(template, options.path) + queryString(options.query),
    {
      method,
      headers: headersOf(options),
      body: bodyOf(options),
      signal: options.signal ?? null,
      credentials: options.token === undefined ? "same-origin" : "omit",
    },
  );
  if (!response.ok) throw await problemOf(response);
  if (response.status === 204) return undefined as Operations[Name]["answer"];
  try {
    return (await response.json()) as Operations[Name]["answer"];
  } catch {
    throw unreachable(); // the body was cut off, or is a proxy's
  }
}

async function fetchResponse(url: string, init: RequestInit): Promise<Response> {
  const sentAt = Date.now();
  try {
    const response = await fetch(url, init);
    updateClockSkew(response.headers.get("Date"), sentAt, Date.now());
    return response;
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw unreachable();
  }
}

function fillPath(template: string, path: Readonly<Record<string, unknown>> | undefined): string {
  return template.replace(/\{(\w+)\}/g, (_, name) => encodeURIComponent(String(path?.[name])));
}

function queryString(query: object | undefined): string {
  const entries = Object.entries(query ?? {}).filter(([, value]) => value != null);
  const text = new URLSearchParams(
    entries.map(([name, value]) => [name, String(value)]),
  ).toString();
  return text && `?${text}`;
}

type AnyRequestOptions = { body?: unknown; key?: string; media?: string; token?: string };

function headersOf({ body, key, media, token }: AnyRequestOptions): Headers {
  const headers = new Headers({ Accept: "application/json" });
  if (body !== undefined) headers.set("Content-Type", media ?? "application/json");
  if (key !== undefined) headers.set("Idempotency-Key", key);
  const session = sessionKey();
  if (token !== undefined) headers.set("Authorization", `Bearer ${token}`);
  else if (session !== null) headers.set("X-Session-Key", session);
  return headers;
}

function bodyOf({ body, media }: AnyRequestOptions): BodyInit | null {
  if (body === undefined) return null;
  return media === undefined ? JSON.stringify(body) : (body as BodyInit);
}

async function problemOf(response: Response): Promise<Problem> {
  const body: unknown = await response.json().catch(() => null);
  return problemFrom(body, response.status, response.statusText);
}
