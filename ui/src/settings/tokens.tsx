/** Settings: the tokens of a user, with creating and revoking. */

import { Check, Copy } from "lucide-react";
import { type FormEvent, useCallback, useEffect, useRef, useState } from "react";
import { IdempotencyKeys } from "../api/idempotency-key";
import { Problem } from "../api/problem";
import { call } from "../api/request";
import type { Me } from "../api/types";
import { Button } from "../ui/button";
import { useNow } from "../ui/clock";
import { Dialog } from "../ui/dialog";
import { useFocusInPlace } from "../ui/focus";
import { ago, moment } from "../ui/format";
import { attempt, notify } from "../ui/notices";
import { lifeOf, type Mistakes, type Token, tokenMistakes } from "./labels";
import { EndingButton, Field } from "./section";

interface Props {
  readonly me: Me;
  /** Id of another user, for an administrator. */
  readonly user?: string;
}

export function Tokens({ me, user }: Props) {
  const [tokens, setTokens] = useState<readonly Token[] | null>(null);
  const [why, setWhy] = useState<string>();
  const read = useCallback(async () => {
    try {
      const query = user === undefined ? {} : { user };
      setTokens((await call("GET /tokens", { query })).tokens);
      setWhy(undefined);
    } catch (error) {
      setWhy(Problem.of(error).message);
    }
  }, [user]);
  useEffect(() => void read(), [read]);
  return (
    <>
      {why !== undefined && (
        <p className="settings-bad" role="alert">
          {why}
        </p>
      )}
      <NewToken me={me} user={user} onMade={() => void read()} />
      <TokenList tokens={tokens ?? []} onChange={() => void read()} />
    </>
  );
}

type Scope = Me["scopes"][number];

const DAY = 86_400;
/** Without a number the server gives what it can: no token outlives the one it was made with. */
const USUAL = 0;
const LIVES: readonly (readonly [number, string])[] = [
  [7 * DAY, "7 days"],
  [30 * DAY, "30 days"],
  [USUAL, "90 days, or until my own token expires"],
  [365 * DAY, "a year"],
];

const SCOPES: Readonly<Record<Scope, string>> = {
  read: "Read: see chats and settings",
  write: "Write: start chats and send messages",
  admin: "Admin: users and keys",
};

interface NewTokenProps {
  readonly me: Me;
  readonly user: string | undefined;
  readonly onMade: () => void;
}

type Making = { readonly is: "nothing" | "form" } | { readonly is: "made"; readonly token: string };

function NewToken({ me, user, onMade }: NewTokenProps) {
  const [making, go] = useState<Making>({ is: "nothing" });
  const place = useFocusInPlace<HTMLDivElement>(making.is);
  return (
    <div ref={place}>
      {making.is === "nothing" && (
        <Button onClick={() => go({ is: "form" })}>Create a token</Button>
      )}
      {making.is === "form" && (
        <TokenForm
          me={me}
          user={user}
          onCancel={() => go({ is: "nothing" })}
          onMade={(token) => {
            go({ is: "made", token });
            onMade();
          }}
        />
      )}
      {making.is === "made" && <Made token={making.token} onDone={() => go({ is: "nothing" })} />}
    </div>
  );
}

interface FormProps {
  readonly me: Me;
  readonly user: string | undefined;
  readonly onCancel: () => void;
  readonly onMade: (token: string) => void;
}

function TokenForm({ me, user, onCancel, onMade }: FormProps) {
  const [name, setName] = useState("");
  const [scopes, setScopes] = useState<readonly Scope[]>(["read", "write"]);
  const [life, setLife] = useState(USUAL);
  const { mistakes, busy, make } = useMaking(user, onMade);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    void make({ name, scopes, life });
  };
  return (
    <form className="settings-form" onSubmit={submit} noValidate>
      <Field label="What it is for" why={mistakes.name}>
        {(id, described) => (
          <input
            id={id}
            className="field"
            maxLength={200}
            value={name}
            aria-invalid={mistakes.name !== undefined}
            aria-describedby={described}
            onChange={(event) => setName(event.target.value)}
          />
        )}
      </Field>
      <ScopeChoice mine={me.scopes} scopes={scopes} onChange={setScopes} why={mistakes.scopes} />
      <LifeChoice life={life} onChange={setLife} />
      {mistakes.form !== undefined && (
        <p className="settings-bad" role="alert">
          {mistakes.form}
        </p>
      )}
      <div className="settings-buttons">
        <Button look="main" type="submit" busy={busy}>
          {busy ? "Creating…" : "Create token"}
        </Button>
        <Button onClick={onCancel}>Cancel</Button>
      </div>
    </form>
  );
}

interface Wish {
  readonly name: string;
  readonly scopes: readonly Scope[];
  readonly life: number;
}

function useMaking(user: string | undefined, onMade: (token: string) => void) {
  const [mistakes, setMistakes] = useState<Mistakes & { form?: string }>({});
  const [busy, setBusy] = useState(false);
  const [keys] = useState(() => new IdempotencyKeys());
  const make = async ({ name, scopes, life }: Wish) => {
    const wrong = tokenMistakes({ name, scopes });
    setMistakes(wrong);
    if (Object.keys(wrong).length > 0) return;
    setBusy(true);
    const whose = user === undefined ? {} : { user };
    const until = life === USUAL ? {} : { expires_in: life };
    const body = { name: name.trim(), scopes: [...scopes], ...until, ...whose };
    try {
      const { token } = await call("POST /tokens", { body, key: keys.for(body) });
      if (token !== null) return onMade(token);
      keys.done();
      setMistakes({ form: "It was already created, and is shown only once: create another one." });
    } catch (error) {
      setMistakes({ form: Problem.of(error).message });
    }
    setBusy(false);
  };
  return { mistakes, busy, make };
}

function LifeChoice({ life, onChange }: { life: number; onChange: (life: number) => void }) {
  return (
    <Field label="Valid for">
      {(id) => (
        <select
          id={id}
          className="field settings-select"
          value={life}
          onChange={(event) => onChange(Number(event.target.value))}
        >
          {LIVES.map(([seconds, words]) => (
            <option key={seconds} value={seconds}>
              {words}
            </option>
          ))}
        </select>
      )}
    </Field>
  );
}

interface ScopeProps {
  readonly mine: readonly Scope[];
  readonly scopes: readonly Scope[];
  readonly onChange: (scopes: readonly Scope[]) => void;
  readonly why: string | undefined;
}

/** No more than one has oneself: the server would refuse it. */
function ScopeChoice({ mine, scopes, onChange, why }: ScopeProps) {
  const offered = (Object.keys(SCOPES) as Scope[]).filter((scope) => mine.includes(scope));
  return (
    <fieldset className="settings-choice">
      <legend>Permissions</legend>
      {offered.map((scope) => (
        <label key={scope}>
          <input
            type="checkbox"
            checked={scopes.includes(scope)}
            onChange={({ target }) =>
              onChange(
                target.checked ? [...scopes, scope] : scopes.filter((each) => each !== scope),
              )
            }
          />
          {SCOPES[scope]}
        </label>
      ))}
      {why !== undefined && (
        <p className="settings-bad" role="alert">
          {why}
        </p>
      )}
    </fieldset>
  );
}

/** The one time that it is shown. */
function Made({ token, onDone }: { readonly token: string; readonly onDone: () => void }) {
  const [copied, setCopied] = useState(false);
  const secret = useRef<HTMLElement>(null);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(token);
      setCopied(true);
      notify("Copied.");
    } catch {
      // Not allowed, or not over HTTPS: then it takes one key more.
      if (secret.current !== null) getSelection()?.selectAllChildren(secret.current);
      notify("The browser blocked copying. The token is selected: copy it with the keyboard.");
    }
  };
  return (
    <div className="settings-made" role="status">
      <p>This is the token. Copy it now: it is not shown again.</p>
      <div className="settings-secret">
        <code ref={secret}>{token}</code>
        <Button onClick={() => void copy()}>
          {copied ? <Check size={14} aria-hidden="true" /> : <Copy size={14} aria-hidden="true" />}
          {copied ? "Copied" : "Copy"}
        </Button>
      </div>
      <div>
        <Button onClick={onDone}>I have it</Button>
      </div>
    </div>
  );
}

interface ListProps {
  readonly tokens: readonly Token[];
  readonly onChange: () => void;
}

function TokenList({ tokens, onChange }: ListProps) {
  const now = useNow(60_000);
  const [revoking, setRevoking] = useState<Token | null>(null);
  return (
    <>
      <ul className="settings-list">
        {tokens.map((token) => (
          <TokenLine key={token.id} token={token} now={now} onRevoke={() => setRevoking(token)} />
        ))}
      </ul>
      {revoking !== null && (
        <Revoking
          token={revoking}
          onDone={() => {
            setRevoking(null);
            onChange();
          }}
        />
      )}
    </>
  );
}

interface LineProps {
  readonly token: Token;
  readonly now: number;
  readonly onRevoke: () => void;
}

function TokenLine({ token, now, onRevoke }: LineProps) {
  const life = lifeOf(token, now);
  const ends =
    life.is !== "good"
      ? life.is
      : life.until === null
        ? "never expires"
        : `until ${moment(life.until)}`;
  const used = token.used_at == null ? "never used" : `used ${ago(token.used_at, now)} ago`;
  return (
    <li className="settings-line" data-off={life.is === "good" ? undefined : ""}>
      <div>
        <p className="settings-name">{token.name}</p>
        <p className="settings-facts">
          {token.scopes.join(", ")} · {ends} · {used.replace("now ago", "just now")}
        </p>
      </div>
      {life.is === "good" && (
        <EndingButton onClick={onRevoke}>
          Revoke
          <span className="hidden-text"> {token.name}</span>
        </EndingButton>
      )}
    </li>
  );
}

function Revoking({ token, onDone }: { readonly token: Token; readonly onDone: () => void }) {
  const [busy, setBusy] = useState(false);
  const revoke = async () => {
    setBusy(true);
    await attempt(() => call("DELETE /tokens/{id}", { path: { id: token.id } }));
    onDone();
  };
  return (
    <Dialog title={`Revoke “${token.name}”?`} onClose={onDone}>
      <p>
        Everything that uses it is signed out at once, including sessions started with it; this may
        be one of them.
      </p>
      <div className="dialog-buttons">
        <Button onClick={onDone}>Cancel</Button>
        <Button look="danger" busy={busy} onClick={() => void revoke()}>
          Revoke
        </Button>
      </div>
    </Dialog>
  );
}
