import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { Chat } from "../api/types";
import { Store } from "../reactive/store";
import type { ChatList } from "../store/chat-list";
import type { InboxAction } from "./grouping";
import { followPendingActions, pendingActions } from "./pending-actions";

const chats = new Store<{ byId: ReadonlyMap<string, Chat> }>({ byId: new Map() });
const list = { chats, stream: { state: new Store({ is: "open" }) } } as unknown as ChatList;
/** Requests that have not been answered, each by what answers it. */
let open: ((asked: readonly string[]) => Promise<void>)[];
let stop: () => void;

beforeEach(() => {
  open = [];
  vi.stubGlobal("fetch", () => {
    return new Promise((resolve) => {
      open.push(async (calls) => {
        const body = JSON.stringify({ actions: calls.map(pendingAction), next: null });
        resolve(new Response(body, { status: 200 }));
        await settle();
      });
    });
  });
  changeChat(1, {});
  stop = followPendingActions(list);
});

afterEach(() => {
  stop();
  vi.unstubAllGlobals();
});

async function settle(): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve));
}

function pendingAction(id: string): InboxAction {
  const call = { type: "call", id, tool: "execute", arguments: "{}" } as const;
  const action = { kind: "approval", call, arguments: "{}", digest: id } as const;
  const chat = { chat_id: "c", root_id: "c", title: null, root_title: null };
  return { ...chat, agent: "a", asked_at: 1, action };
}

function changeChat(version: number, more: Partial<Chat>): void {
  const chat = { id: "c", parent_id: null, status: "running", needs_me: false, ...more };
  chats.set({ byId: new Map([["c", { ...chat, snapshot_version: version } as Chat]]) });
}

async function answer(...calls: readonly string[]): Promise<void> {
  const [first, ...others] = open;
  open = others;
  await first?.(calls);
}

test("pending actions are fetched when the list changes, and again after an answer", async () => {
  await answer();
  changeChat(2, { needs_me: true });
  await answer("one");
  expect(pendingActions.get().actions).toHaveLength(1);
  changeChat(3, {});
  await answer();
  expect(pendingActions.get().actions).toHaveLength(0);
  expect(open).toHaveLength(0);
});

test("an action asked and answered between two events of the list does not stay", async () => {
  await answer();
  changeChat(2, { needs_me: true });
  await answer("one");
  changeChat(3, {});
  await answer("two"); // it asks again already, and the list is not told: it is answered by then
  changeChat(6, { status: "idle" });
  while (open.length > 0) await answer();
  expect(pendingActions.get().actions).toHaveLength(0);
});

test("a response overtaken by an event of the list does not stay", async () => {
  await answer();
  changeChat(2, { needs_me: true });
  await answer("one");
  changeChat(3, {});
  changeChat(6, { status: "idle" });
  await answer("two");
  while (open.length > 0) await answer();
  expect(pendingActions.get().actions).toHaveLength(0);
});

test("an action that the list does not know yet is not fetched in a loop", async () => {
  await answer("early");
  await answer("early");
  expect(open).toHaveLength(0);
  expect(pendingActions.get().actions).toHaveLength(1);
});

test("actions of one user are not shown to the next user", async () => {
  stop();
  await answer("theirs");
  expect(pendingActions.get().actions).toBeNull();
  stop = followPendingActions(list);
  await answer("mine");
  expect(pendingActions.get().actions?.map(({ action }) => action.call.id)).toEqual(["mine"]);
});
