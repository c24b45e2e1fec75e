import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

beforeEach(() => {
  vi.resetModules();
  vi.stubGlobal("addEventListener", () => {});
});
afterEach(() => vi.unstubAllGlobals());

describe("what a browser has kept", () => {
  it("is taken as far as it fits", async () => {
    const { fitting } = await import("./preferences");
    const usual = fitting({});
    expect(fitting({ theme: "dark", sidebarWidth: 300, folded: ["older"] })).toEqual({
      ...usual,
      theme: "dark",
      sidebarWidth: 300,
      folded: ["older"],
    });
    expect(fitting({ sidebarWidth: "wide", folded: {}, sidebar: null, other: 1 })).toEqual(usual);
    expect(fitting("nonsense")).toEqual(usual);
    expect(fitting(null)).toEqual(usual);
  });
});
