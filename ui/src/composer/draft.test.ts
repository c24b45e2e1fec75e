import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Problem } from "../api/problem";
import type { StoredFile } from "../api/types";
import type { UploadTask } from "../api/upload";
import { setStorageUser } from "../reactive/local-storage";
import { Draft, draftNamed } from "./draft";

interface Sent {
  readonly name: string;
  readonly progress: (share: number) => void;
  arrive: () => void;
  fail: (why: string) => void;
  cancelled: boolean;
}

const sent: Sent[] = [];

function send(_: Blob, name: string, progress: (share: number) => void): UploadTask {
  const one = { name, progress, cancelled: false } as Sent;
  const done = new Promise<StoredFile>((resolve, reject) => {
    one.arrive = () => resolve({ id: `id of ${name}` } as StoredFile);
    one.fail = (why) => reject(new Problem("x", 413, why));
  });
  sent.push(one);
  return { done, cancel: () => Object.assign(one, { cancelled: true }) };
}

/** Until those who wait for a promise have been told. */
const settle = () => new Promise((resolve) => setTimeout(resolve));

beforeEach(() => {
  sent.length = 0;
  const map = new Map<string, string>();
  vi.stubGlobal("localStorage", {
    getItem: (name: string) => map.get(name) ?? null,
    setItem: (name: string, value: string) => map.set(name, value),
    removeItem: (name: string) => map.delete(name),
  });
});

afterEach(() => {
  setStorageUser("");
  vi.unstubAllGlobals();
});

const open = () => new Draft("c", undefined, send);
const kinds = (draft: Draft) => draft.content.get().files.map((file) => file.progress.is);
const file = (name: string) => new File(["x"], name, { type: "image/png" });

test("a draft survives a reload, and is removed when it is sent", () => {
  const draft = open();
  draft.type("half a thought");
  expect(open().content.get().text).toBe("half a thought");
  draft.clear();
  expect(open().content.get().text).toBe("");
});

test("a draft keeps its idempotency key over a reload, until it is empty", () => {
  const draft = open();
  draft.type("Begin");
  const first = draft.keys.for("Begin");
  const after = open();
  expect(after.keys.for("Begin")).toBe(first);
  after.type("");
  expect(open().keys.for("Begin")).not.toBe(first);
});

test("uploaded files survive a reload, and others do not", async () => {
  const draft = open();
  draft.add([file("a.png"), file("b.png")]);
  sent[0]?.arrive();
  await settle();
  expect(kinds(draft)).toEqual(["done", "uploading"]);
  expect(
    open()
      .content.get()
      .files.map((each) => each.name),
  ).toEqual(["a.png"]);
});

test("an attached paste survives a reload also if its upload was not finished", async () => {
  open().addText("a long text");
  const after = open();
  expect(sent).toHaveLength(2);
  sent[1]?.arrive();
  await settle();
  expect(kinds(after)).toEqual(["done"]);
});

test("a refused file says why, and can be uploaded again", async () => {
  const draft = open();
  draft.add([file("a.png")]);
  sent[0]?.fail("too large");
  await settle();
  const failed = draft.content.get().files[0];
  expect(failed?.progress).toEqual({ is: "failed", why: "too large" });
  draft.retry(failed?.id ?? "");
  sent[1]?.arrive();
  await settle();
  expect(kinds(draft)).toEqual(["done"]);
});

test("a file removed during its upload stays removed", async () => {
  const draft = open();
  draft.add([file("a.png")]);
  draft.remove(draft.content.get().files[0]?.id ?? "");
  expect(sent[0]?.cancelled).toBe(true);
  sent[0]?.progress(0.5);
  sent[0]?.arrive();
  await settle();
  expect(draft.content.get().files).toEqual([]);
});

test("an attached paste can be moved into the message, after its text", () => {
  const draft = open();
  draft.type("see this: ");
  draft.addText("one\ntwo");
  draft.inline(draft.content.get().files[0]?.id ?? "");
  expect(draft.content.get()).toEqual({ text: "see this:\n\none\ntwo", files: [] });
});

test("restored content is in front of text written meanwhile", () => {
  const draft = open();
  draft.type("later");
  draft.prepend({ text: "first", files: [] });
  expect(draft.content.get().text).toBe("first\n\nlater");
});

test("text written while a message was sent stays, and only that text", async () => {
  const draft = open();
  draft.type("first\n");
  draft.add([file("a.png"), file("b.png")]);
  sent[0]?.arrive();
  sent[1]?.arrive();
  await settle();
  const was = draft.content.get();
  draft.type("first, and then");
  draft.add([file("c.png")]);
  draft.removeSent(was);
  expect(draft.content.get().text).toBe(", and then");
  expect(draft.content.get().files.map(({ name }) => name)).toEqual(["c.png"]);
  expect(open().content.get().text).toBe(", and then");
  draft.clear();
});

test("a text rewritten while it was sent stays as it is", () => {
  const draft = open();
  draft.type("first");
  const was = draft.content.get();
  draft.type("the first");
  draft.removeSent(was);
  expect(draft.content.get().text).toBe("the first");
  draft.removeSent(draft.content.get());
  expect(draft.content.get().text).toBe("");
});

test("a name gives the draft on the screen, as long as it is there", () => {
  vi.stubGlobal("addEventListener", () => {});
  vi.stubGlobal("removeEventListener", () => {});
  const draft = draftNamed("c", send);
  const leave = draft.follow();
  expect(draftNamed("c", send)).toBe(draft);
  expect(draftNamed("d", send)).not.toBe(draft);
  leave();
  expect(draftNamed("c", send)).not.toBe(draft);
});

test("a draft without a name is not stored", () => {
  const draft = new Draft(null, { text: "said", files: [] }, send);
  draft.type("said otherwise");
  expect(new Draft(null, undefined, send).content.get().text).toBe("");
});

test("an upload continues while another chat is open", async () => {
  const draft = draftNamed("c", send);
  draft.add([file("a.png")]);
  const again = draftNamed("c", send);
  expect(kinds(again)).toEqual(["uploading"]);
  sent[0]?.arrive();
  await settle();
  expect(kinds(again)).toEqual(["done"]);
  again.clear();
  expect(draftNamed("c", send).content.get().files).toEqual([]);
});

test("a draft without uploads is not kept in memory", async () => {
  const draft = draftNamed("c", send);
  draft.add([file("a.png"), file("b.png"), file("c.png")]);
  const [first] = draft.content.get().files;
  draft.remove(first?.id ?? "");
  sent[1]?.fail("too large");
  await settle();
  expect(draftNamed("c", send)).toBe(draft);
  draft.clear();
  expect(draftNamed("c", send)).not.toBe(draft);
});

test("a cancelled draft stops its uploads", async () => {
  const draft = new Draft(null, undefined, send);
  draft.add([file("a.png"), file("b.png")]);
  sent[0]?.arrive();
  await settle();
  draft.stop();
  expect(sent.map(({ cancelled }) => cancelled)).toEqual([false, true]);
});

test("an upload is not given to another user who signs in", async () => {
  setStorageUser("ann");
  const draft = draftNamed("new", send);
  draft.type("Dear diary");
  draft.add([file("a.png")]);
  setStorageUser("bob");
  expect(draftNamed("new", send).content.get()).toEqual({ text: "", files: [] });
  sent[0]?.arrive();
  await settle();
  expect(draftNamed("new", send).content.get().files).toEqual([]);
});
