/** Models for the picker: grouped by provider, searchable, with their efforts. Pure. */

import type { Agent, Effort, Model, Provider } from "../api/types";

/** From the least to the most. */
export const EFFORTS: readonly Effort[] = [
  "none",
  "minimal",
  "low",
  "medium",
  "high",
  "xhigh",
  "max",
];

const WORDS: Readonly<Record<Effort, string>> = {
  none: "None",
  minimal: "Minimal",
  low: "Low",
  medium: "Medium",
  high: "High",
  xhigh: "Very high",
  max: "Maximum",
};

export function effortName(effort: string): string {
  return WORDS[effort as Effort] ?? effort;
}

export interface ModelOption {
  /** Null: whatever the agent has. */
  readonly name: string | null;
  readonly label: string;
  readonly window: number | null;
  /** Why it cannot be chosen; null when it can. */
  readonly why: string | null;
  /** The agent's default model. */
  readonly isOwn: boolean;
}

export interface ModelGroup {
  readonly provider: string;
  readonly models: readonly ModelOption[];
}

interface Source {
  readonly models: readonly Model[];
  readonly providers: readonly Provider[];
}

/** Models by provider, in the server's order. `own`: the agent's default model. */
export function modelGroups(source: Source, own: string | null, query: string): ModelGroup[] {
  const groups = new Map<string, ModelOption[]>();
  const put = (provider: string, model: ModelOption) => {
    groups.set(provider, [...(groups.get(provider) ?? []), model]);
  };
  for (const model of source.models) {
    if (matchesQuery(query, model.name))
      put(model.provider, modelOption(model, source.providers, own));
  }
  // The others are unavailable: a search shows why.
  for (const provider of query.trim() === "" ? [] : source.providers) {
    const { name, usable, remedy, default: model } = provider;
    const isThere = model === null || source.models.some((each) => each.name === model);
    if (usable || isThere || !matchesQuery(query, model)) continue;
    const why = remedy ?? "not available";
    put(name, { name: model, label: shortName(model), window: null, why, isOwn: false });
  }
  return [...groups].map(([provider, models]) => ({ provider, models }));
}

function modelOption(
  model: Model,
  providers: readonly Provider[],
  own: string | null,
): ModelOption {
  const provider = providers.find((each) => each.name === model.provider);
  const why = provider === undefined || provider.usable ? null : provider.remedy;
  const { name, window } = model;
  return { name, label: shortName(name), window, why, isOwn: name === own };
}

/** Whether a name contains all words of a query. */
function matchesQuery(query: string, name: string): boolean {
  const text = name.toLowerCase();
  const words = query.toLowerCase().split(/\s+/);
  return words.every((word) => text.includes(word));
}

/** The model without its provider (`provider:model`). */
export function shortName(name: string): string {
  return name.slice(name.indexOf(":") + 1);
}

/** An unlisted model can be used by its full name. */
export function unlistedModel(source: Source, query: string): string | null {
  const name = query.trim();
  if (!/^[\w.-]+:\S+$/.test(name)) return null;
  const [provider] = name.split(":");
  const isKnown = source.providers.some((each) => each.name === provider && each.usable);
  return isKnown && !source.models.some((each) => each.name === name) ? name : null;
}

/** The efforts of a model; null if unknown, empty if it has none. */
export function effortsOf(models: readonly Model[], name: string | null): readonly Effort[] | null {
  return models.find((model) => model.name === name)?.efforts ?? null;
}

/** The same effort with another model, if it has it. */
export function supportedEffort(
  models: readonly Model[],
  name: string | null,
  effort: Effort | null,
): Effort | null {
  const efforts = effortsOf(models, name);
  return effort === null || efforts === null || efforts.includes(effort) ? effort : null;
}

export function effortIn(text: string | null | undefined): Effort | null {
  return EFFORTS.find((effort) => effort === text) ?? null;
}

/** The model and effort in use: the chosen ones or the agent's; null if unknown. */
export function effectiveModel(
  chosen: { readonly model: string | null; readonly effort: Effort | null },
  agent: Agent | undefined,
): { model: string | null; effort: Effort | null } {
  return {
    model: chosen.model ?? agent?.model ?? null,
    effort: chosen.effort ?? agent?.effort ?? null,
  };
}

/** The index of the next model that can be chosen, wrapping around; -1 if there is none. */
export function nextChoosable(options: readonly ModelOption[], at: number, by: 1 | -1): number {
  for (let step = 1; step <= options.length; step += 1) {
    const place = (at + by * step + options.length * (step + 1)) % options.length;
    if (options[place]?.why === null) return place;
  }
  return -1;
}
