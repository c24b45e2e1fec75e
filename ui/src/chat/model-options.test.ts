import { describe, expect, test } from "vitest";
import type { Model, Provider } from "../api/types";
import { effortsOf, fitting, groupsOf, inUse, named, nextPlace, short } from "./model-options";

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

function shown(query: string, own: string | null = null) {
  return groupsOf(SOURCE, own, query).map(({ provider, models }) => [
    provider,
    models.map(({ label }) => label),
  ]);
}

describe("models to choose from", () => {
  test("are grouped by provider", () => {
    expect(shown("")).toEqual([
      ["one", ["big", "small"]],
      ["two", ["big"]],
      ["off", ["x"]],
    ]);
  });

  test("are found by words in any order", () => {
    expect(shown("BIG two")).toEqual([["two", ["big"]]]);
    expect(shown("nothing")).toEqual([]);
  });

  test("say why they cannot be chosen", () => {
    const [off] = groupsOf(SOURCE, null, "off");
    expect(off?.models[0]?.why).toBe("set OFF_KEY");
  });

  test("of providers without a key are found, with what to do", () => {
    expect(groupsOf(SOURCE, null, "far")).toEqual([
      {
        provider: "far",
        models: [
          { name: "far:best", label: "best", window: null, why: "set FAR_KEY", isOwn: false },
        ],
      },
    ]);
  });

  test("mark the agent's own", () => {
    const [one] = groupsOf(SOURCE, "one:small", "one");
    expect(one?.models.map(({ isOwn }) => isOwn)).toEqual([false, true]);
  });

  test("that nobody listed can be named whole, if their provider can be asked", () => {
    expect(named(SOURCE, " one:new ")).toBe("one:new");
    expect(named(SOURCE, "one:big")).toBeNull();
    expect(named(SOURCE, "off:new")).toBeNull();
    expect(named(SOURCE, "new")).toBeNull();
  });

  test("are called by their own name, whatever is in it", () => {
    expect(short("router:maker/model:free")).toBe("maker/model:free");
    expect(short("plain")).toBe("plain");
  });
});

describe("effort", () => {
  const models = [model("a:x", { efforts: ["low", "high"] }), model("a:y", { efforts: [] })];

  test("is what the model has, or unknown", () => {
    expect(effortsOf(models, "a:x")).toEqual(["low", "high"]);
    expect(effortsOf(models, "a:y")).toEqual([]);
    expect(effortsOf(models, "a:z")).toBeNull();
  });

  test("is kept with another model only if that has it", () => {
    expect(fitting(models, "a:x", "high")).toBe("high");
    expect(fitting(models, "a:x", "max")).toBeNull();
    expect(fitting(models, "a:z", "max")).toBe("max");
  });
});

test("what is not chosen is the agent's", () => {
  const agent = { model: "a:x", effort: "low" } as Parameters<typeof inUse>[1];
  expect(inUse({ model: null, effort: null }, agent)).toEqual({ model: "a:x", effort: "low" });
  expect(inUse({ model: "b:y", effort: "max" }, agent)).toEqual({ model: "b:y", effort: "max" });
  expect(inUse({ model: null, effort: null }, undefined)).toEqual({ model: null, effort: null });
});

describe("moving by keys", () => {
  const at = (why: string | null) => ({ name: "", label: "", window: null, why, isOwn: false });

  test("passes what cannot be chosen, round the end", () => {
    const options = [at(null), at("no"), at(null)];
    expect(nextPlace(options, 0, 1)).toBe(2);
    expect(nextPlace(options, 2, 1)).toBe(0);
    expect(nextPlace(options, 0, -1)).toBe(2);
    expect(nextPlace(options, -1, 1)).toBe(0);
  });

  test("stays nowhere when nothing can be chosen", () => {
    expect(nextPlace([at("no")], -1, 1)).toBe(-1);
    expect(nextPlace([], -1, 1)).toBe(-1);
  });
});
