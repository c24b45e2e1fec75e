import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { deferredNavigation } from "./deferred-navigation";

const notify = vi.hoisted(() => vi.fn());
vi.mock("./notices", () => ({ notify }));

const went: string[] = [];

beforeEach(() => {
  went.length = 0;
  notify.mockClear();
  vi.stubGlobal("location", { pathname: "/new" });
  vi.stubGlobal("history", { pushState: (_: unknown, __: string, to: string) => went.push(to) });
});
afterEach(() => void vi.unstubAllGlobals());

it("navigates to the result when the user has stayed", () => {
  deferredNavigation()("/chats/c1", "It has begun.");
  expect(went).toEqual(["/chats/c1"]);
  expect(notify).not.toHaveBeenCalled();
});

it("offers the result in a notice when the user has navigated away", () => {
  const arrive = deferredNavigation();
  location.pathname = "/chats/c7";
  arrive("/chats/c1", "It has begun.");
  expect(went).toEqual([]);
  const [said, , way] = notify.mock.calls[0] ?? [];
  expect(said).toBe("It has begun.");
  way.onChoose();
  expect(went).toEqual(["/chats/c1"]);
});
