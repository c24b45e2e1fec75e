/** The catalog of agents, models and providers: fetched once, and again after a change here. */

import { useEffect, useState } from "react";
import { Problem } from "../api/problem";
import { call } from "../api/request";
import type { Agent, Model, Provider } from "../api/types";
import { Store, useStore } from "../reactive/store";

export interface Catalog {
  readonly agents: readonly Agent[];
  readonly models: readonly Model[];
  readonly providers: readonly Provider[];
  /** Date of the prices. */
  readonly pricedOn: string;
  /** Whether the server can store provider keys. */
  readonly canStore: boolean;
}

export const catalogStore = new Store<Catalog | null>(null);

export async function readCatalog(): Promise<void> {
  const [{ agents }, { models, priced_on }, { providers, can_store }] = await Promise.all([
    call("GET /agents", {}),
    call("GET /models", {}),
    call("GET /providers", {}),
  ]);
  catalogStore.set({ agents, models, providers, pricedOn: priced_on, canStore: can_store });
}

export type CatalogState =
  | { readonly is: "read"; readonly catalog: Catalog }
  | { readonly is: "reading" }
  | CatalogFailure;

/** Loading failed. Also during a retry, so that the retry button keeps the focus. */
export interface CatalogFailure {
  readonly is: "failed";
  readonly problem: Problem;
  readonly isTrying: boolean;
  readonly again: () => void;
}

/** The catalog with loading and error states, fetched again on mount. */
export function useCatalog(): CatalogState {
  const current = useStore(catalogStore);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [tries, setTries] = useState(0);
  const [isTrying, setTrying] = useState(true);
  // biome-ignore lint/correctness/useExhaustiveDependencies: read again with each try
  useEffect(() => {
    setTrying(true);
    readCatalog()
      .catch((error: unknown) => setProblem(Problem.of(error)))
      .finally(() => setTrying(false));
  }, [tries]);
  if (current !== null) return { is: "read", catalog: current };
  if (problem === null) return { is: "reading" };
  return { is: "failed", problem, isTrying, again: () => setTries(tries + 1) };
}
