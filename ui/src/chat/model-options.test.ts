import { describe, expect, test } from "vitest";
import type { Model, Provider } from "../api/types";
import {
  effectiveModel,
  effortsOf,
  modelGroups,
  nextChoosable,
  shortName,
  supportedEffort,
  unlistedModel,
} from "./model-options";

function model(name: string, more: Partial<Model> = {}): Model {
  const unknown = { window: null, max_output: null, efforts: null, files: null, price: null };
  return { name, provider: name.split(":")[0] ?? "", used_by: [], ...unknown, ...more };
}

function provider(name: string, more: Partial<Provider> = {}): Provider {
  const usual = { usable: true, remedy: null, variables: [], url: null, default: null };
  return { name, ...usual, ...more };
}

const SOURCE = {
  models: [model("one:big"), model("one:small"), model("two:big"), model("off:x")],
  providers: [
    provider("one"),
    provider("two"),
    provider("off", { usable: false, remedy: "set OFF_KEY", default: "off:x" }),
    provider("far", { usable: false, remedy: "set FAR_KEY", default: "far:best" }),
  ],
};

function groupsFor(query: string, own: string | null = null) {
  return modelGroups(SOURCE, own, query).map(({ provider, models }) => [
    provider,
    models.map(({ label }) => label),
  ]);
}

describe("models to choose from", () => {
  test("are grouped by provider", () => {
    expect(groupsFor("")).toEqual([
      ["one", ["big", "small"]],
      ["two", ["big"]],
      ["off", ["x"]],
    ]);
  });

  test("are found by words in any order", () => {
    expect(groupsFor("BIG two")).toEqual([["two", ["big"]]]);
    expect(groupsFor("nothing")).toEqual([]);
  });

  test("say why they cannot be chosen", () => {
    const [off] = modelGroups(SOURCE, null, "off");
    expect(off?.models[0]?.why).toBe("set OFF_KEY");
  });

  test("of providers without a key are found, with what to do", () => {
    expect(modelGroups(SOURCE, null, "far")).toEqual([
      {
        provider: "far",
        models: [
          { name: "far:best", label: "best", window: null, why: "set FAR_KEY", isOwn: false },
        ],
      },
    ]);
  });

  test("mark the agent's own", () => {
    const [one] = modelGroups(SOURCE, "one:small", "one");
    expect(one?.models.map(({ isOwn }) => isOwn)).toEqual([false, true]);
  });

  test("that are not listed can be entered by full name, if their provider is usable", () => {
    expect(unlistedModel(SOURCE, " one:new ")).toBe("one:new");
    expect(unlistedModel(SOURCE, "one:big")).toBeNull();
    expect(unlistedModel(SOURCE, "off:new")).toBeNull();
    expect(unlistedModel(SOURCE, "new")).toBeNull();
  });

  test("are shown by their own name, whatever characters it has", () => {
    expect(shortName("router:maker/model:free")).toBe("maker/model:free");
    expect(shortName("plain")).toBe("plain");
  });
});

describe("effort", () => {
  const models = [model("a:x", { efforts: ["low", "high"] }), model("a:y", { efforts: [] })];

  test("is that of the model, or unknown", () => {
    expect(effortsOf(models, "a:x")).toEqual(["low", "high"]);
    expect(effortsOf(models, "a:y")).toEqual([]);
    expect(effortsOf(models, "a:z")).toBeNull();
  });

  test("is kept with another model only if that supports it", () => {
    expect(supportedEffort(models, "a:x", "high")).toBe("high");
    expect(supportedEffort(models, "a:x", "max")).toBeNull();
    expect(supportedEffort(models, "a:z", "max")).toBe("max");
  });
});

test("without a choice the agent's model is used", () => {
  const agent = { model: "a:x", effort: "low" } as Parameters<typeof effectiveModel>[1];
  expect(effectiveModel({ model: null, effort: null }, agent)).toEqual({
    model: "a:x",
    effort: "low",
  });
  expect(effectiveModel({ model: "b:y", effort: "max" }, agent)).toEqual({
    model: "b:y",
    effort: "max",
  });
  expect(effectiveModel({ model: null, effort: null }, undefined)).toEqual({
    model: null,
    effort: null,
  });
});

describe("moving by keys", () => {
  const at = (why: string | null) => ({ name: "", label: "", window: null, why, isOwn: false });

  test("skips unavailable models, and wraps around", () => {
    const options = [at(null), at("no"), at(null)];
    expect(nextChoosable(options, 0, 1)).toBe(2);
    expect(nextChoosable(options, 2, 1)).toBe(0);
    expect(nextChoosable(options, 0, -1)).toBe(2);
    expect(nextChoosable(options, -1, 1)).toBe(0);
  });

  test("selects nothing if nothing is available", () => {
    expect(nextChoosable([at("no")], -1, 1)).toBe(-1);
    expect(nextChoosable([], -1, 1)).toBe(-1);
  });
});
