/** Labels and validation of the settings: models, tools, providers, tokens. Pure. */

import type { Schemas } from "../api/schema";
import type { Agent, Effort, Me, Model, Provider } from "../api/types";
import { effortName } from "../chat/model-options";
import { count } from "../ui/format";

type Price = NonNullable<Model["price"]>;
export type Tool = Schemas["CatalogTool"];
export type Token = Schemas["Token"];

export function windowLabel(tokens: number | null): string {
  return tokens === null ? "window unknown" : `${count(tokens)} tokens`;
}

export function effortsLabel(efforts: readonly Effort[] | null): string {
  if (efforts === null) return "effort unknown";
  const [first, ...others] = efforts;
  if (first === undefined) return "fixed effort";
  const last = others.at(-1);
  const words = (effort: Effort) => effortName(effort).toLowerCase();
  return `effort ${last === undefined ? words(first) : `${words(first)} to ${words(last)}`}`;
}

/** Price in dollars per million tokens. */
export function priceLabel(price: Price | null): string {
  if (price === null) return "price unknown";
  if (price.input === 0 && price.output === 0) return "free";
  const words = `${dollars(price.input)} in, ${dollars(price.output)} out`;
  const { long } = price;
  if (long == null) return words;
  return `${words} (${priceLabel(long)} for prompts over ${count(long.above ?? 0)})`;
}

function dollars(value: number): string {
  return Number.isInteger(value) || value < 0.1 ? `$${value}` : `$${value.toFixed(2)}`;
}

/** What a call of the tool waits for; null if nothing. */
export function waitLabel({ waits_for, approval }: Tool): string | null {
  if (waits_for === "answer") return "asks you a question";
  if (waits_for === "client") return "runs in your client";
  if (waits_for === "child") return "waits for a subagent";
  if (waits_for === "approval" || approval === "ask") return "asks you first";
  return approval === "depends" ? "may ask you first" : null;
}

export function effectLabel(effect: Tool["effect"]): string {
  switch (effect) {
    case "pure":
      return "changes nothing";
    case "idempotent":
      return "safe to repeat";
    case "once":
      return "never repeated automatically";
    case "commit":
      return "changes chats";
  }
}

export interface ProviderState {
  readonly words: string;
  readonly look: "good" | "bad" | "off";
}

/** `mayStore`: whether the user can store a key here. */
export function providerStateOf(provider: Provider, mayStore = false): ProviderState {
  const { usable, broken, remedy, key, variables, needs_key, url, stored } = provider;
  if (!usable) {
    // A missing URL cannot be set here.
    const isKeyAll = needs_key !== false && url !== null && !stored;
    const here = mayStore && isKeyAll && remedy != null ? "store its key here, or " : "";
    const words = asSentence(here + (remedy ?? "not available"));
    return { words, look: broken ? "bad" : "off" };
  }
  if (key === "stored") return { words: "Ready, with the key stored here.", look: "good" };
  if (key === "environment") {
    const from = variables.length === 1 ? ` (${variables[0]})` : "";
    return { words: `Ready, with a key from the server's environment${from}.`, look: "good" };
  }
  return { words: "Ready. It needs no key.", look: "good" };
}

export function asSentence(text: string): string {
  const whole = text.endsWith(".") ? text : `${text}.`;
  return whole.charAt(0).toUpperCase() + whole.slice(1);
}

/** Usable providers first, then misconfigured ones, each by name. */
export function sortedProviders(providers: readonly Provider[]): readonly Provider[] {
  const rank = ({ usable, broken }: Provider) => (usable ? 0 : broken ? 1 : 2);
  return providers.toSorted(
    (one, other) => rank(one) - rank(other) || one.name.localeCompare(other.name),
  );
}

/**
 * Whether a key can be set for a provider. A provider that needs none may take one if it is usable:
 * a custom URL may require it.
 */
export function takesKey({ needs_key, stored, usable }: Provider): boolean {
  return needs_key !== false || stored === true || usable;
}

/** Why a key cannot be valid; null if it may be. */
export function keyError(key: string): string | null {
  if (key.trim() === "") return "Paste the key here.";
  if (/\s/.test(key.trim())) return "A key contains no spaces or line breaks: copy it again.";
  return null;
}

/** Warning that a provider's first key may change default models; null if it cannot. */
export function defaultModelWarning({ usable, default: model }: Provider): string | null {
  if (usable || model === null) return null;
  return (
    `${model} may then become the default model, also in existing chats without a chosen model. ` +
    "To keep the current model in a chat, choose it there."
  );
}

type AgentModel = Pick<Agent, "name" | "model">;

/** Which agents have a new default model, as a sentence; null if none. */
export function changedModels(
  before: readonly AgentModel[],
  now: readonly AgentModel[],
): string | null {
  const old = new Map(before.map(({ name, model }) => [name, model]));
  const changed = now.filter(({ name, model }) => (old.get(name) ?? model) !== model);
  if (changed.length === 0) return null;
  const each = changed.map(({ name, model }) => `the default model of ${name} is now ${model}`);
  return asSentence(`${each.join(", ")}, also in chats without a chosen model`);
}

export type Validity =
  | { readonly is: "good"; readonly until: number | null }
  | { readonly is: "expired" }
  | { readonly is: "revoked" };

/** `now` in milliseconds. */
export function validityOf({ expires_at, revoked_at }: Token, now: number): Validity {
  if (revoked_at != null) return { is: "revoked" };
  if (expires_at != null && expires_at / 1000 <= now) return { is: "expired" };
  return { is: "good", until: expires_at ?? null };
}

export function mayAdminister({ role, scopes }: Me): boolean {
  return role === "admin" && scopes.includes("admin");
}

export interface TokenForm {
  readonly name: string;
  readonly scopes: readonly string[];
}

export interface TokenErrors {
  readonly name?: string;
  readonly scopes?: string;
}

export function tokenErrors({ name, scopes }: TokenForm): TokenErrors {
  return {
    ...(name.trim() === "" && { name: "Enter what the token is for." }),
    ...(scopes.length === 0 && { scopes: "Choose at least one." }),
  };
}
