import { type FormEvent, useEffect, useRef, useState } from "react";
import { call } from "../api/call";
import { Problem } from "../api/problem";
import type { Me, Provider } from "../api/types";
import { Button } from "../parts/button";
import { Dialog } from "../parts/dialog";
import { useFocusInPlace } from "../parts/focus";
import { attempt, notify } from "../parts/notices";
import { moment } from "../parts/words";
import { type Catalog, catalog, readCatalog } from "../store/catalog";
import { EndingButton, Field, FromCatalog, Section } from "./section";
import {
  inOrder,
  keyMistake,
  mayAdminister,
  movedWords,
  moveWarning,
  stateOf,
  takesKey,
} from "./words";

export function Providers({ me }: { readonly me: Me }) {
  return (
    <Section
      title="Providers"
      about="Where models come from. A key that you give here is encrypted, used by this server alone, and never shown again."
    >
      <FromCatalog>{(known) => <Known known={known} me={me} />}</FromCatalog>
    </Section>
  );
}

function Known({ known, me }: { readonly known: Catalog; readonly me: Me }) {
  const may = mayAdminister(me);
  return (
    <>
      {may && !known.canStore && (
        <p className="settings-note">
          This server has no key of its own to encrypt with, so it keeps none: set keys in its
          environment.
        </p>
      )}
      {!may && <p className="settings-note">An administrator sets keys.</p>}
      <ul className="settings-list">
        {inOrder(known.providers).map((provider) => (
          <One key={provider.name} provider={provider} may={may && known.canStore} />
        ))}
      </ul>
    </>
  );
}

function One({ provider, may }: { readonly provider: Provider; readonly may: boolean }) {
  const [doing, setDoing] = useState<"nothing" | "setting" | "removing">("nothing");
  const [isChanging, change] = useChange();
  const { words, look } = isChanging ? CHANGING : stateOf(provider, may);
  const line = useFocusInPlace<HTMLLIElement>(doing);
  const rest = () => setDoing("nothing");
  const mayChange = may && takesKey(provider);
  return (
    <li ref={line}>
      <div className="settings-line">
        <div>
          <p className="settings-name">
            <span className="settings-dot" data-look={look} aria-hidden="true" />
            <span>{provider.name}</span>
          </p>
          <p className="settings-facts">
            {words}
            {provider.stored_at != null && !isChanging && ` Since ${moment(provider.stored_at)}.`}
          </p>
          {provider.url !== null && <p className="settings-fine">{provider.url}</p>}
        </div>
        {mayChange && doing !== "setting" && (
          <div className="settings-buttons">
            <Button onClick={() => setDoing("setting")}>
              {provider.stored ? "Replace key" : "Set key"}
              <span className="hidden-text"> of {provider.name}</span>
            </Button>
            {provider.stored && (
              <EndingButton onClick={() => setDoing("removing")}>
                Remove key
                <span className="hidden-text"> of {provider.name}</span>
              </EndingButton>
            )}
          </div>
        )}
      </div>
      {doing === "setting" && <KeyForm provider={provider} onChanged={change} onDone={rest} />}
      {doing === "removing" && <Removing name={provider.name} onChanged={change} onDone={rest} />}
    </li>
  );
}

/** It takes the server a moment to use another key; what it says of itself until then is old. */
const SOON = 4_000;
const CHANGING = { words: "The server takes this up, within a few seconds.", look: "off" } as const;

function useChange(): [boolean, () => void] {
  const [isChanging, setChanging] = useState(false);
  const change = () => {
    const before = catalog.get()?.agents ?? [];
    const reread = async () => {
      await readCatalog().catch(() => {});
      return movedWords(before, catalog.get()?.agents ?? []);
    };
    setChanging(true);
    void reread();
    setTimeout(async () => {
      const moved = await reread();
      if (moved !== null) notify(moved);
      setChanging(false);
    }, SOON);
  };
  return [isChanging, change];
}

interface DoingProps {
  readonly name: string;
  readonly onChanged: () => void;
  readonly onDone: () => void;
}

function useStoring({ name, onChanged, onDone }: DoingProps) {
  const [why, setWhy] = useState<string>();
  const [busy, setBusy] = useState(false);
  /** Whether it is stored. */
  const store = async (key: string): Promise<boolean> => {
    const mistake = keyMistake(key);
    setWhy(mistake ?? undefined);
    if (mistake !== null) return false;
    setBusy(true);
    try {
      await call("PUT /providers/{name}", { path: { name }, body: { key: key.trim() } });
    } catch (error) {
      setWhy(Problem.of(error).message);
      setBusy(false);
      return false;
    }
    notify(`The key of ${name} is stored.`);
    onChanged();
    onDone();
    return true;
  };
  return { why, busy, store };
}

type KeyFormProps = Omit<DoingProps, "name"> & { readonly provider: Provider };

function KeyForm({ provider, ...doing }: KeyFormProps) {
  const { name } = provider;
  const [key, setKey] = useState("");
  const { why, busy, store } = useStoring({ name, ...doing });
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => field.current?.focus(), []);
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    if (!(await store(key))) field.current?.focus();
  };
  const warning = moveWarning(provider);
  return (
    <form className="settings-form" onSubmit={(event) => void submit(event)} noValidate>
      <Field label={`Key of ${name}`} why={why}>
        {(id, described) => (
          <input
            ref={field}
            id={id}
            className="field"
            type="password"
            autoComplete="off"
            spellCheck={false}
            value={key}
            aria-invalid={why !== undefined}
            aria-describedby={described}
            onChange={(event) => setKey(event.target.value)}
          />
        )}
      </Field>
      {warning !== null && <p className="settings-facts">{warning}</p>}
      <div className="settings-buttons">
        <Button look="main" type="submit" busy={busy}>
          {busy ? "Storing…" : "Store"}
        </Button>
        <Button onClick={doing.onDone}>Cancel</Button>
      </div>
    </form>
  );
}

function Removing({ name, onChanged, onDone }: DoingProps) {
  const [busy, setBusy] = useState(false);
  const remove = async () => {
    setBusy(true);
    if (await attempt(() => call("DELETE /providers/{name}", { path: { name } }))) {
      notify(`The key of ${name} is forgotten.`);
      onChanged();
    }
    onDone();
  };
  return (
    <Dialog title={`Remove the key of ${name}?`} onClose={onDone}>
      <p>The server forgets it. A key of its environment is used instead, if there is one.</p>
      <div className="dialog-buttons">
        <Button onClick={onDone}>Cancel</Button>
        <Button look="danger" busy={busy} onClick={() => void remove()}>
          Remove
        </Button>
      </div>
    </Dialog>
  );
}
