/** The session of this page: signing in with a token or a cookie, signing out, renewing. */

import { setStorageUser } from "../reactive/local-storage";
import { Store } from "../reactive/store";
import { Problem } from "./problem";
import { call, caller } from "./request";
import {
  adoptSessionKey,
  forgetSessionKey,
  keepSessionKey,
  whenSignedInElsewhere,
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

/** Of the address, until the server has taken or refused it. */
let shown: string | null = null;
let beginning: Promise<void> | null = null;

// Another tab may have signed in as another user: then nothing here is theirs.
caller.subscribe(() => {
  const me = caller.get();
  const now = session.get();
  if (me !== null && now.is === "in" && now.me.user !== me.user) enter(me);
});

/** With the token in the address, if there is one: it is taken out of the address at once. */
export function begin(): Promise<void> {
  const token = tokenIn(location.hash);
  if (token !== null) {
    shown = token;
    history.replaceState(history.state, "", location.pathname + location.search);
    if (beginning !== null) return beginning.then(begin);
  }
  beginning ??= (shown === null ? look(null) : signInByAddress(shown)).finally(() => {
    beginning = null;
  });
  return beginning;
}

function tokenIn(hash: string): string | null {
  return new URLSearchParams(hash.slice(1)).get("token");
}

/** An address with a token may be opened where the page is open already: it is not loaded anew. */
export function beginAgainByAddress(): void {
  addEventListener("hashchange", () => {
    if (tokenIn(location.hash) !== null) void begin();
  });
}

/** A tab that waits for a sign-in is let in by one in another tab. */
export function beginAgainByOtherTab(): void {
  whenSignedInElsewhere(() => {
    if (session.get().is !== "out") return; // it takes the key when its own is refused
    adoptSessionKey();
    void begin();
  });
}

/** Does not replace another user's session without asking: a link may come from anyone. */
async function signInByAddress(token: string): Promise<void> {
  try {
    const me = await known();
    const other = me === null ? null : await known(token);
    if (me !== null && other !== null && me.user !== other.user) {
      shown = null;
      return session.set({ is: "conflict", me, other, token });
    }
  } catch (error) {
    return session.set({ is: "unreachable", why: Problem.of(error).message });
  }
  await signIn(token);
}

/** The user of a token, or of the cookie; null if there is none. */
async function known(token?: string): Promise<Me | null> {
  try {
    return await call("GET /me", token === undefined ? {} : { token });
  } catch (error) {
    if (Problem.of(error).passing) throw error;
    return null;
  }
}

/** Stays signed in as the user of the cookie, whatever the URL says. */
export async function stay(): Promise<void> {
  await look(null);
}

export async function signIn(token: string): Promise<void> {
  try {
    keepSessionKey((await call("POST /session", { body: { token: token.trim() } })).key);
    shown = null;
  } catch (error) {
    const problem = Problem.of(error);
    if (problem.passing) {
      // It is shown again when the server is there.
      shown = token;
      return session.set({ is: "unreachable", why: problem.message });
    }
    shown = null;
    // A cookie from before may still be good.
    return await look(problem.message);
  }
  await look(null);
}

export async function signOut(): Promise<void> {
  try {
    await call("DELETE /session", {});
    forgetSessionKey();
  } catch (error) {
    if (Problem.of(error).status !== 401) throw error; // else it is over already
  }
  caller.set(null);
  session.set({ is: "out", why: null });
}

/** The cookie is no longer good: the page keeps its place behind the sign-in form. */
export function lockedOut(why: string): void {
  caller.set(null);
  session.set({ is: "out", why });
}

/** Whether the server still knows who this is. One that does not answer does not say otherwise. */
export async function isStillIn(): Promise<boolean> {
  try {
    caller.set(await call("GET /me", {}));
    return true;
  } catch (error) {
    const { status } = Problem.of(error);
    if (status === 401) lockedOut("You were signed out. Sign in to continue where you left off.");
    return status !== 401;
  }
}

async function look(why: string | null): Promise<void> {
  try {
    const me = await call("GET /me", {});
    caller.set(me);
    enter(me);
  } catch (error) {
    const problem = Problem.of(error);
    if (problem.status === 401) session.set({ is: "out", why });
    else session.set({ is: "unreachable", why: problem.message });
  }
}

/** What this browser keeps is theirs, before anything of the page looks at it. */
function enter(me: Me): void {
  setStorageUser(me.user);
  session.set({ is: "in", me });
}
