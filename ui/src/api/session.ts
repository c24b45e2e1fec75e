/** The session of this page: signing in with a token or a cookie, signing out, renewing. */

import { setStorageUser } from "../reactive/local-storage";
import { Store } from "../reactive/store";
import { Problem } from "./problem";
import { call, currentUser } from "./request";
import {
  adoptSessionKey,
  forgetSessionKey,
  onSignInElsewhere,
  storeSessionKey,
} from "./session-key";
import type { Me } from "./types";

export type Session =
  | { readonly is: "asking" }
  | { readonly is: "in"; readonly me: Me }
  /** Signed in, and opened a link with the token of another user: asks which to use. */
  | { readonly is: "conflict"; readonly me: Me; readonly other: Me; readonly token: string }
  /** Signed out. `why`: what was wrong with the token. */
  | { readonly is: "out"; readonly why: string | null }
  | { readonly is: "unreachable"; readonly why: string };

export const session = new Store<Session>({ is: "asking" });

/** Token from the URL, until the server has accepted or refused it. */
let pendingToken: string | null = null;
let starting: Promise<void> | null = null;

// Another tab may have signed in as another user: then the page is reopened for that user.
currentUser.subscribe(() => {
  const me = currentUser.get();
  const now = session.get();
  if (me !== null && now.is === "in" && now.me.user !== me.user) openAs(me);
});

/** Signs in with the token in the URL, if any, and removes it from the URL at once. */
export function startSession(): Promise<void> {
  const token = tokenIn(location.hash);
  if (token !== null) {
    pendingToken = token;
    history.replaceState(history.state, "", location.pathname + location.search);
    if (starting !== null) return starting.then(startSession);
  }
  starting ??= (pendingToken === null ? loadUser(null) : signInByUrl(pendingToken)).finally(() => {
    starting = null;
  });
  return starting;
}

function tokenIn(hash: string): string | null {
  return new URLSearchParams(hash.slice(1)).get("token");
}

/** Handles a URL with a token that is opened in this tab: the browser does not reload the page. */
export function restartOnTokenInUrl(): void {
  addEventListener("hashchange", () => {
    if (tokenIn(location.hash) !== null) void startSession();
  });
}

/** Signs in a tab with the sign-in form when another tab signs in. */
export function restartOnSignInElsewhere(): void {
  onSignInElsewhere(() => {
    if (session.get().is !== "out") return; // it takes the key when its own is refused
    adoptSessionKey();
    void startSession();
  });
}

/** Does not replace another user's session without asking: a link may come from anyone. */
async function signInByUrl(token: string): Promise<void> {
  try {
    const me = await userOf();
    const other = me === null ? null : await userOf(token);
    if (me !== null && other !== null && me.user !== other.user) {
      pendingToken = null;
      return session.set({ is: "conflict", me, other, token });
    }
  } catch (error) {
    return session.set({ is: "unreachable", why: Problem.of(error).message });
  }
  await signIn(token);
}

/** The user of a token, or of the cookie; null if there is none. */
async function userOf(token?: string): Promise<Me | null> {
  try {
    return await call("GET /me", token === undefined ? {} : { token });
  } catch (error) {
    if (Problem.of(error).isTransient) throw error;
    return null;
  }
}

/** Stays signed in as the user of the cookie, whatever the URL says. */
export async function staySignedIn(): Promise<void> {
  await loadUser(null);
}

export async function signIn(token: string): Promise<void> {
  try {
    storeSessionKey((await call("POST /session", { body: { token: token.trim() } })).key);
    pendingToken = null;
  } catch (error) {
    const problem = Problem.of(error);
    if (problem.isTransient) {
      // Used again when the server is reachable.
      pendingToken = token;
      return session.set({ is: "unreachable", why: problem.message });
    }
    pendingToken = null;
    // An earlier cookie may still be valid.
    return await loadUser(problem.message);
  }
  await loadUser(null);
}

export async function signOut(): Promise<void> {
  try {
    await call("DELETE /session", {});
    forgetSessionKey();
  } catch (error) {
    if (Problem.of(error).status !== 401) throw error; // else it is over already
  }
  currentUser.set(null);
  session.set({ is: "out", why: null });
}

/** Shows the sign-in form because the cookie is no longer valid; the URL stays. */
export function requireSignIn(why: string): void {
  currentUser.set(null);
  session.set({ is: "out", why });
}

/** Whether the session is still valid. True if the server does not respond. */
export async function isStillSignedIn(): Promise<boolean> {
  try {
    currentUser.set(await call("GET /me", {}));
    return true;
  } catch (error) {
    const { status } = Problem.of(error);
    if (status === 401)
      requireSignIn("You were signed out. Sign in to continue where you left off.");
    return status !== 401;
  }
}

async function loadUser(why: string | null): Promise<void> {
  try {
    const me = await call("GET /me", {});
    currentUser.set(me);
    openAs(me);
  } catch (error) {
    const problem = Problem.of(error);
    if (problem.status === 401) session.set({ is: "out", why });
    else session.set({ is: "unreachable", why: problem.message });
  }
}

/** Opens the page for a user. Sets the storage user first, before any value is read. */
function openAs(me: Me): void {
  setStorageUser(me.user);
  session.set({ is: "in", me });
}
