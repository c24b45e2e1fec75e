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
import { useFocusOnSwap } from "../ui/focus";
import { fullTime, timeAgo } from "../ui/format";
import { attempt, notify } from "../ui/notices";
import { type Token, type TokenErrors, tokenErrors, validityOf } from "./labels";
import { FormField, SelfRemovingButton } from "./section";

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
      <NewToken me={me} user={user} onCreated={() => void read()} />
      <TokenList tokens={tokens ?? []} onChange={() => void read()} />
    </>
  );
}

type Scope = Me["scopes"][number];

const DAY = 86_400;
/** The server decides: no token outlives the token that created it. */
const DEFAULT_LIFETIME = 0;
const LIFETIMES: readonly (readonly [number, string])[] = [
  [7 * DAY, "7 days"],
  [30 * DAY, "30 days"],
  [DEFAULT_LIFETIME, "90 days, or until my own token expires"],
  [365 * DAY, "1 year"],
];

const SCOPES: Readonly<Record<Scope, string>> = {
  read: "Read: see chats and settings",
  write: "Write: start chats and send messages",
  admin: "Admin: users and keys",
};

interface NewTokenProps {
  readonly me: Me;
  readonly user: string | undefined;
  readonly onCreated: () => void;
}

type Creation =
  | { readonly is: "nothing" | "form" }
  | { readonly is: "made"; readonly token: string };

function NewToken({ me, user, onCreated }: NewTokenProps) {
  const [creation, go] = useState<Creation>({ is: "nothing" });
  const place = useFocusOnSwap<HTMLDivElement>(creation.is);
  return (
    <div ref={place}>
      {creation.is === "nothing" && (
        <Button onClick={() => go({ is: "form" })}>Create a token</Button>
      )}
      {creation.is === "form" && (
        <TokenForm
          me={me}
          user={user}
          onCancel={() => go({ is: "nothing" })}
          onCreated={(token) => {
            go({ is: "made", token });
            onCreated();
          }}
        />
      )}
      {creation.is === "made" && (
        <CreatedToken token={creation.token} onDone={() => go({ is: "nothing" })} />
      )}
    </div>
  );
}

interface FormProps {
  readonly me: Me;
  readonly user: string | undefined;
  readonly onCancel: () => void;
  readonly onCreated: (token: string) => void;
}

function TokenForm({ me, user, onCancel, onCreated }: FormProps) {
  const [name, setName] = useState("");
  const [scopes, setScopes] = useState<readonly Scope[]>(["read", "write"]);
  const [life, setLife] = useState(DEFAULT_LIFETIME);
  const { errors, busy, make: create } = useCreateToken(user, onCreated);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    void create({ name, scopes, life });
  };
  return (
    <form className="settings-form" onSubmit={submit} noValidate>
      <FormField label="What it is for" why={errors.name}>
        {(id, described) => (
          <input
            id={id}
            className="field"
            maxLength={200}
            value={name}
            aria-invalid={errors.name !== undefined}
            aria-describedby={described}
            onChange={(event) => setName(event.target.value)}
          />
        )}
      </FormField>
      <ScopeChoice mine={me.scopes} scopes={scopes} onChange={setScopes} why={errors.scopes} />
      <LifetimeChoice life={life} onChange={setLife} />
      {errors.form !== undefined && (
        <p className="settings-bad" role="alert">
          {errors.form}
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

interface TokenOptions {
  readonly name: string;
  readonly scopes: readonly Scope[];
  readonly life: number;
}

function useCreateToken(user: string | undefined, onCreated: (token: string) => void) {
  const [errors, setErrors] = useState<TokenErrors & { form?: string }>({});
  const [busy, setBusy] = useState(false);
  const [keys] = useState(() => new IdempotencyKeys());
  const create = async ({ name, scopes, life }: TokenOptions) => {
    const invalid = tokenErrors({ name, scopes });
    setErrors(invalid);
    if (Object.keys(invalid).length > 0) return;
    setBusy(true);
    const whose = user === undefined ? {} : { user };
    const until = life === DEFAULT_LIFETIME ? {} : { expires_in: life };
    const body = { name: name.trim(), scopes: [...scopes], ...until, ...whose };
    try {
      const { token } = await call("POST /tokens", { body, key: keys.for(body) });
      if (token !== null) return onCreated(token);
      keys.done();
      setErrors({
        form: "This token was already created, and is shown only once. Create another one.",
      });
    } catch (error) {
      setErrors({ form: Problem.of(error).message });
    }
    setBusy(false);
  };
  return { errors, busy, make: create };
}

function LifetimeChoice({ life, onChange }: { life: number; onChange: (life: number) => void }) {
  return (
    <FormField label="Valid for">
      {(id) => (
        <select
          id={id}
          className="field settings-select"
          value={life}
          onChange={(event) => onChange(Number(event.target.value))}
        >
          {LIFETIMES.map(([seconds, words]) => (
            <option key={seconds} value={seconds}>
              {words}
            </option>
          ))}
        </select>
      )}
    </FormField>
  );
}

interface ScopeProps {
  readonly mine: readonly Scope[];
  readonly scopes: readonly Scope[];
  readonly onChange: (scopes: readonly Scope[]) => void;
  readonly why: string | undefined;
}

/** Permissions of the token: at most the user's own. */
function ScopeChoice({ mine, scopes, onChange, why }: ScopeProps) {
  const choices = (Object.keys(SCOPES) as Scope[]).filter((scope) => mine.includes(scope));
  return (
    <fieldset className="settings-choice">
      <legend>Permissions</legend>
      {choices.map((scope) => (
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

/** The new token, which is shown only once. */
function CreatedToken({ token, onDone }: { readonly token: string; readonly onDone: () => void }) {
  const [copied, setCopied] = useState(false);
  const secret = useRef<HTMLElement>(null);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(token);
      setCopied(true);
      notify("Copied.");
    } catch {
      // Not allowed, or not over HTTPS: the token is selected instead.
      if (secret.current !== null) getSelection()?.selectAllChildren(secret.current);
      notify("The browser blocked copying. The token is selected: copy it with the keyboard.");
    }
  };
  return (
    <div className="settings-made" role="status">
      <p>Copy the token now: it is not shown again.</p>
      <div className="settings-secret">
        <code ref={secret}>{token}</code>
        <Button onClick={() => void copy()}>
          {copied ? <Check size={14} aria-hidden="true" /> : <Copy size={14} aria-hidden="true" />}
          {copied ? "Copied" : "Copy"}
        </Button>
      </div>
      <div>
        <Button onClick={onDone}>Done</Button>
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
        <RevokeDialog
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
  const validity = validityOf(token, now);
  const ends =
    validity.is !== "good"
      ? validity.is
      : validity.until === null
        ? "never expires"
        : `valid until ${fullTime(validity.until)}`;
  const used = token.used_at == null ? "never used" : `used ${timeAgo(token.used_at, now)} ago`;
  return (
    <li className="settings-line" data-off={validity.is === "good" ? undefined : ""}>
      <div>
        <p className="settings-name">{token.name}</p>
        <p className="settings-facts">
          {token.scopes.join(", ")} · {ends} · {used.replace("now ago", "just now")}
        </p>
      </div>
      {validity.is === "good" && (
        <SelfRemovingButton onClick={onRevoke}>
          Revoke
          <span className="hidden-text"> {token.name}</span>
        </SelfRemovingButton>
      )}
    </li>
  );
}

function RevokeDialog({ token, onDone }: { readonly token: Token; readonly onDone: () => void }) {
  const [busy, setBusy] = useState(false);
  const revoke = async () => {
    setBusy(true);
    await attempt(() => call("DELETE /tokens/{id}", { path: { id: token.id } }));
    onDone();
  };
  return (
    <Dialog title={`Revoke “${token.name}”?`} onClose={onDone}>
      <p>
        Everything that uses it is signed out at once, including browser sessions started with it.
        This page may be one of them.
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
