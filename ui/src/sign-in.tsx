/** The sign-in form, and the choice between two accounts. */

import { type FormEvent, useState } from "react";
import { type Session, signIn, staySignedIn } from "./api/session";
import { Logo } from "./sidebar/logo";
import { Button } from "./ui/button";

/** The form for signing in with a token. */
export function SignIn({ why }: { readonly why: string | null }) {
  const [token, setToken] = useState("");
  const [busy, setBusy] = useState(false);
  const enter = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    await signIn(token);
    setBusy(false);
  };
  return (
    <main className="sign-in">
      <form className="sign-in-card" onSubmit={enter}>
        <header>
          <Logo size={40} />
          <h1>Sign in to Holdfast</h1>
        </header>
        {why && (
          <p className="sign-in-why" role="alert">
            {why}
          </p>
        )}
        <label>
          Token
          <input
            className="field"
            type="password"
            autoComplete="current-password"
            // biome-ignore lint/a11y/noAutofocus: there is nothing else to do here
            autoFocus
            value={token}
            onChange={(event) => setToken(event.target.value)}
          />
        </label>
        <Button look="main" type="submit" busy={busy} disabled={token.trim() === ""}>
          {busy ? "Signing in…" : "Sign in"}
        </Button>
        <p className="sign-in-more">
          No token? Open the link printed by <code>holdfast serve</code>. On a team server, ask its
          administrator for one.
        </p>
      </form>
    </main>
  );
}

type AccountConflictProps = Omit<Session & { readonly is: "conflict" }, "is">;

/** Asks a signed-in user who opened another user's link which account to use. */
export function AccountConflict({ me, other, token }: AccountConflictProps) {
  const [busy, setBusy] = useState(false);
  const choose = async (what: Promise<void>) => {
    setBusy(true);
    await what;
    setBusy(false);
  };
  return (
    <main className="sign-in">
      <div className="sign-in-card">
        <header>
          <Logo size={40} />
          <h1>Sign in as {other.name}?</h1>
        </header>
        <p>
          You are signed in as <strong>{me.name}</strong>. The link you opened has a token of{" "}
          <strong>{other.name}</strong>: what you write there will be visible to them.
        </p>
        <Button look="main" busy={busy} onClick={() => void choose(staySignedIn())}>
          Stay signed in as {me.name}
        </Button>
        <Button busy={busy} onClick={() => void choose(signIn(token))}>
          Sign in as {other.name}
        </Button>
      </div>
    </main>
  );
}
