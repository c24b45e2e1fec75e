import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

beforeEach(() => {
  vi.resetModules();
  vi.stubGlobal("addEventListener", () => {});
});
afterEach(() => vi.unstubAllGlobals());

describe("stored preferences", () => {
  it("are used as far as they are valid", async () => {
    const { validPreferences } = await import("./preferences");
    const usual = validPreferences({});
    expect(validPreferences({ theme: "dark", sidebarWidth: 300, folded: ["older"] })).toEqual({
      ...usual,
      theme: "dark",
      sidebarWidth: 300,
      folded: ["older"],
    });
    expect(validPreferences({ sidebarWidth: "wide", folded: {}, sidebar: null, other: 1 })).toEqual(
      usual,
    );
    expect(validPreferences("nonsense")).toEqual(usual);
    expect(validPreferences(null)).toEqual(usual);
  });
});
