/** Settings: providers and their keys. */

import { type FormEvent, useEffect, useRef, useState } from "react";
import { Problem } from "../api/problem";
import { call } from "../api/request";
import type { Me, Provider } from "../api/types";
import { type Catalog, catalogStore, readCatalog } from "../store/catalog";
import { Button } from "../ui/button";
import { Dialog } from "../ui/dialog";
import { useFocusOnSwap } from "../ui/focus";
import { fullTime } from "../ui/format";
import { attempt, notify } from "../ui/notices";
import {
  changedModels,
  defaultModelWarning,
  keyError,
  mayAdminister,
  providerStateOf,
  sortedProviders,
  takesKey,
} from "./labels";
import { FormField, FromCatalog, Section, SelfRemovingButton } from "./section";

export function Providers({ me }: { readonly me: Me }) {
  return (
    <Section
      title="Providers"
      about="Providers serve the models. A key stored here is encrypted, used only by this server and never shown again."
    >
      <FromCatalog>{(known) => <ProviderList known={known} me={me} />}</FromCatalog>
    </Section>
  );
}

function ProviderList({ known, me }: { readonly known: Catalog; readonly me: Me }) {
  const may = mayAdminister(me);
  return (
    <>
      {may && !known.canStore && (
        <p className="settings-note">
          This server has no encryption key, so it cannot store provider keys: set them in its
          environment.
        </p>
      )}
      {!may && <p className="settings-note">Only an administrator can set keys.</p>}
      <ul className="settings-list">
        {sortedProviders(known.providers).map((provider) => (
          <ProviderRow key={provider.name} provider={provider} may={may && known.canStore} />
        ))}
      </ul>
    </>
  );
}

function ProviderRow({ provider, may }: { readonly provider: Provider; readonly may: boolean }) {
  const [doing, setDoing] = useState<"nothing" | "setting" | "removing">("nothing");
  const [isChanging, change] = useChange();
  const { words, look } = isChanging ? CHANGING : providerStateOf(provider, may);
  const line = useFocusOnSwap<HTMLLIElement>(doing);
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
            {provider.stored_at != null &&
              !isChanging &&
              ` Stored ${fullTime(provider.stored_at)}.`}
          </p>
          {provider.url !== null && <p className="settings-fine">{provider.url}</p>}
        </div>
        {mayChange && doing !== "setting" && (
          <div className="settings-buttons">
            <Button onClick={() => setDoing("setting")}>
              {provider.stored ? "Replace key" : "Set key"}
              <span className="hidden-text"> for {provider.name}</span>
            </Button>
            {provider.stored && (
              <SelfRemovingButton onClick={() => setDoing("removing")}>
                Remove key
                <span className="hidden-text"> for {provider.name}</span>
              </SelfRemovingButton>
            )}
          </div>
        )}
      </div>
      {doing === "setting" && <KeyForm provider={provider} onChanged={change} onDone={rest} />}
      {doing === "removing" && (
        <RemoveKeyDialog name={provider.name} onChanged={change} onDone={rest} />
      )}
    </li>
  );
}

/** Milliseconds until the server uses a changed key; until then its state is outdated. */
const EFFECT_DELAY = 4_000;
const CHANGING = { words: "Takes effect within a few seconds.", look: "off" } as const;

function useChange(): [boolean, () => void] {
  const [isChanging, setChanging] = useState(false);
  const change = () => {
    const before = catalogStore.get()?.agents ?? [];
    const reread = async () => {
      await readCatalog().catch(() => {});
      return changedModels(before, catalogStore.get()?.agents ?? []);
    };
    setChanging(true);
    void reread();
    setTimeout(async () => {
      const changed = await reread();
      if (changed !== null) notify(changed);
      setChanging(false);
    }, EFFECT_DELAY);
  };
  return [isChanging, change];
}

interface KeyActionProps {
  readonly name: string;
  readonly onChanged: () => void;
  readonly onDone: () => void;
}

function useStoreKey({ name, onChanged, onDone }: KeyActionProps) {
  const [why, setWhy] = useState<string>();
  const [busy, setBusy] = useState(false);
  /** Stores the key; returns whether it succeeded. */
  const store = async (key: string): Promise<boolean> => {
    const invalid = keyError(key);
    setWhy(invalid ?? undefined);
    if (invalid !== null) return false;
    setBusy(true);
    try {
      await call("PUT /providers/{name}", { path: { name }, body: { key: key.trim() } });
    } catch (error) {
      setWhy(Problem.of(error).message);
      setBusy(false);
      return false;
    }
    notify(`Key for ${name} stored.`);
    onChanged();
    onDone();
    return true;
  };
  return { why, busy, store };
}

type KeyFormProps = Omit<KeyActionProps, "name"> & { readonly provider: Provider };

function KeyForm({ provider, ...doing }: KeyFormProps) {
  const { name } = provider;
  const [key, setKey] = useState("");
  const { why, busy, store } = useStoreKey({ name, ...doing });
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => field.current?.focus(), []);
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    if (!(await store(key))) field.current?.focus();
  };
  const warning = defaultModelWarning(provider);
  return (
    <form className="settings-form" onSubmit={(event) => void submit(event)} noValidate>
      <FormField label={`Key for ${name}`} why={why}>
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
      </FormField>
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

function RemoveKeyDialog({ name, onChanged, onDone }: KeyActionProps) {
  const [busy, setBusy] = useState(false);
  const remove = async () => {
    setBusy(true);
    if (await attempt(() => call("DELETE /providers/{name}", { path: { name } }))) {
      notify(`Key for ${name} removed.`);
      onChanged();
    }
    onDone();
  };
  return (
    <Dialog title={`Remove the key for ${name}?`} onClose={onDone}>
      <p>The server deletes it. If its environment has a key, that one is used instead.</p>
      <div className="dialog-buttons">
        <Button onClick={onDone}>Cancel</Button>
        <Button look="danger" busy={busy} onClick={() => void remove()}>
          Remove
        </Button>
      </div>
    </Dialog>
  );
}
