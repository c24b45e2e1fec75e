import { type FormEvent, useState } from "react";
import { type Session, signIn, stay } from "./api/session";
import { Button } from "./parts/button";
import { Mark } from "./sidebar/mark";

/** For somebody whom the server does not know yet. */
export function Door({ why }: { readonly why: string | null }) {
  const [token, setToken] = useState("");
  const [busy, setBusy] = useState(false);
  const enter = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    await signIn(token);
    setBusy(false);
  };
  return (
    <main className="door">
      <form className="door-card" onSubmit={enter}>
        <header>
          <Mark size={40} />
          <h1>Sign in to Holdfast</h1>
        </header>
        {why && (
          <p className="door-why" role="alert">
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
          {busy ? "One moment…" : "Sign in"}
        </Button>
        <p className="door-more">
          No token? Open the address that <code>holdfast serve</code> printed. On a server of a
          team, whoever runs it gives you one.
        </p>
      </form>
    </main>
  );
}

type TornProps = Omit<Session & { readonly is: "torn" }, "is">;

/** For somebody who is signed in, and has opened an address that signs in somebody else. */
export function Torn({ me, other, token }: TornProps) {
  const [busy, setBusy] = useState(false);
  const choose = async (what: Promise<void>) => {
    setBusy(true);
    await what;
    setBusy(false);
  };
  return (
    <main className="door">
      <div className="door-card">
        <header>
          <Mark size={40} />
          <h1>Sign in as {other.name}?</h1>
        </header>
        <p>
          You are signed in as <strong>{me.name}</strong>. The address that you opened has a token
          of <strong>{other.name}</strong>: what you write from then on is theirs to read.
        </p>
        <Button look="main" busy={busy} onClick={() => void choose(stay())}>
          Stay signed in as {me.name}
        </Button>
        <Button busy={busy} onClick={() => void choose(signIn(token))}>
          Sign in as {other.name}
        </Button>
      </div>
    </main>
  );
}
