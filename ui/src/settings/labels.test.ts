import { describe, expect, test } from "vitest";
import type { Me, Provider } from "../api/types";
import {
  changedModels,
  defaultModelWarning,
  effortsLabel,
  keyError,
  mayAdminister,
  priceLabel,
  providerStateOf,
  sortedProviders,
  type Token,
  type Tool,
  takesKey,
  tokenErrors,
  validityOf,
  waitLabel,
  windowLabel,
} from "./labels";

describe("a model", () => {
  test("says which facts are unknown", () => {
    expect(windowLabel(null)).toBe("window unknown");
    expect(effortsLabel(null)).toBe("effort unknown");
    expect(priceLabel(null)).toBe("price unknown");
  });

  test("has a range of efforts", () => {
    expect(effortsLabel([])).toBe("fixed effort");
    expect(effortsLabel(["high"])).toBe("effort high");
    expect(effortsLabel(["low", "medium", "max"])).toBe("effort low to maximum");
  });

  test("has a price, which may be free", () => {
    expect(priceLabel({ input: 4, output: 20 })).toBe("$4 in, $20 out");
    expect(priceLabel({ input: 0.25, output: 0 })).toBe("$0.25 in, $0 out");
    expect(priceLabel({ input: 0, output: 0 })).toBe("free");
  });

  test("may cost more when the prompt is long", () => {
    const long = { input: 4, output: 18, above: 200_000 };
    expect(priceLabel({ input: 2, output: 12, long })).toBe(
      "$2 in, $12 out ($4 in, $18 out for prompts over 200k)",
    );
    expect(priceLabel({ input: 2, output: 12, long: null })).toBe("$2 in, $12 out");
  });
});

test.each([
  [{ waits_for: null, approval: "never" }, null],
  [{ waits_for: null, approval: "ask" }, "asks you first"],
  [{ waits_for: null, approval: "depends" }, "may ask you first"],
  [{ waits_for: "answer", approval: "never" }, "asks you a question"],
  [{ waits_for: "client", approval: "never" }, "runs in your client"],
  [{ waits_for: "child", approval: "never" }, "waits for a subagent"],
] as const)("a tool with %o", (tool, words) => {
  expect(waitLabel(tool as unknown as Tool)).toBe(words);
});

describe("a provider", () => {
  const provider = (more: Partial<Provider>): Provider => {
    const usual = { usable: true, remedy: null, url: null, default: null };
    return { name: "one", variables: ["ONE_KEY"], ...usual, ...more };
  };

  test("says where its key comes from", () => {
    expect(providerStateOf(provider({ key: "stored" })).words).toMatch(/stored here/);
    expect(providerStateOf(provider({ key: "environment" })).words).toMatch(/\(ONE_KEY\)/);
    expect(providerStateOf(provider({ key: null })).words).toMatch(/no key/);
  });

  test("says what to do, and whether it is misconfigured", () => {
    const missing = provider({ usable: false, remedy: "set ONE_KEY" });
    expect(providerStateOf(missing)).toEqual({ words: "Set ONE_KEY.", look: "off" });
    expect(providerStateOf({ ...missing, url: "https://one.example" }, true).words).toBe(
      "Store its key here, or set ONE_KEY.",
    );
    expect(providerStateOf(missing, true).words).toBe("Set ONE_KEY.");
    expect(providerStateOf({ ...missing, broken: true }).look).toBe("bad");
  });

  test("that is usable comes first", () => {
    const off = provider({ name: "a", usable: false });
    const broken = provider({ name: "z", usable: false, broken: true });
    const names = sortedProviders([off, broken, provider({ name: "m" })]).map(({ name }) => name);
    expect(names).toEqual(["m", "z", "a"]);
  });

  test("that needs no key takes one only if it is usable, or has one stored", () => {
    const off = { usable: false, url: "http://localhost:1/v1" };
    expect(takesKey(provider(off))).toBe(true);
    const local = provider({ ...off, needs_key: false });
    expect(takesKey(local)).toBe(false);
    expect(takesKey({ ...local, usable: true })).toBe(true);
    expect(takesKey({ ...local, stored: true })).toBe(true);
  });

  test("takes a key without white space", () => {
    expect(keyError(" sk-1 \n")).toBeNull();
    expect(keyError("  ")).toBe("Paste the key here.");
    expect(keyError("sk 1")).toMatch(/spaces or line breaks/);
  });
});

describe("a token", () => {
  const token = (more: Partial<Token>) =>
    ({ expires_at: null, revoked_at: null, ...more }) as Token;

  test("is valid until it expires, or is revoked", () => {
    expect(validityOf(token({}), 5)).toEqual({ is: "good", until: null });
    expect(validityOf(token({ expires_at: 6_000 }), 5)).toEqual({ is: "good", until: 6_000 });
    expect(validityOf(token({ expires_at: 5_000 }), 5)).toEqual({ is: "expired" });
    expect(validityOf(token({ expires_at: 5_000, revoked_at: 1 }), 5)).toEqual({ is: "revoked" });
  });

  test("needs a name and a permission", () => {
    expect(tokenErrors({ name: "ci", scopes: ["read"] })).toEqual({});
    expect(tokenErrors({ name: " ", scopes: [] })).toEqual({
      name: "Enter what the token is for.",
      scopes: "Choose at least one.",
    });
  });
});

test("only an administrator with the admin scope may administer", () => {
  const me = { role: "admin", scopes: ["read", "admin"] } as unknown as Me;
  expect(mayAdminister(me)).toBe(true);
  expect(mayAdminister({ ...me, scopes: ["read"] })).toBe(false);
  expect(mayAdminister({ ...me, role: "member" })).toBe(false);
});

describe("a key that changes the default model", () => {
  const provider = { usable: false, default: "acme:large" } as Provider;

  test("leads to a warning if that is possible", () => {
    expect(defaultModelWarning(provider)).toContain("acme:large may then become the default model");
    expect(defaultModelWarning({ ...provider, usable: true })).toBeNull();
    expect(defaultModelWarning({ ...provider, default: null })).toBeNull();
  });

  test("leads to a notice with the agents that have another model", () => {
    const before = [
      { name: "a", model: "demo" },
      { name: "b", model: "acme:small" },
    ];
    const now = [{ name: "a", model: "acme:large" }, ...before.slice(1)];
    expect(changedModels(before, now)).toBe(
      "The default model of a is now acme:large, also in chats without a chosen model.",
    );
    expect(changedModels(before, before)).toBeNull();
    expect(changedModels([], now)).toBeNull();
  });
});
