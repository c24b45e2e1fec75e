import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { caller } from "./call";
import type { Me } from "./types";
import { upload } from "./upload";

/** The last ones are those that were sent last. */
let requests: FakeRequest[];

class FakeRequest {
  readonly upload: { onprogress?: (event: { loaded: number; total: number }) => void } = {};
  readonly headers: Record<string, string> = {};
  onload?: () => void;
  onerror?: () => void;
  onabort?: () => void;
  status = 0;
  statusText = "";
  responseText = "";
  aborted = false;

  constructor() {
    requests.push(this);
  }

  open(): void {}
  send(): void {}

  setRequestHeader(name: string, value: string): void {
    this.headers[name] = value;
  }

  abort(): void {
    this.aborted = true;
    this.onabort?.();
  }

  /** What the server does. */
  answer(status: number, body: unknown): void {
    this.status = status;
    this.responseText = typeof body === "string" ? body : JSON.stringify(body);
    this.onload?.();
  }
}

const ME = { user: "u1", csrf: "old" } as Me;
const STALE = { kind: "csrf", status: 403, detail: "Forged." };
const FILE = { id: "f1" };

function begun() {
  const uploading = upload(new Blob(["x"]), "a.txt", () => {});
  // What is refused is looked at later.
  uploading.done.catch(() => {});
  return uploading;
}

/** The server knows this one by the cookie. */
function knows(me: Partial<Me>): void {
  vi.stubGlobal("fetch", async () => new Response(JSON.stringify({ ...ME, ...me })));
}

async function sent(count: number): Promise<FakeRequest> {
  await vi.waitFor(() => expect(requests).toHaveLength(count));
  return requests[count - 1] as FakeRequest;
}

beforeEach(() => {
  requests = [];
  caller.set(ME);
  vi.stubGlobal("XMLHttpRequest", FakeRequest);
});
afterEach(() => {
  caller.set(null);
  vi.unstubAllGlobals();
});

describe("an upload", () => {
  it("is tried again when another tab has signed in anew, as the same file", async () => {
    knows({ csrf: "new" });
    const { done } = begun();
    (await sent(1)).answer(403, STALE);
    const second = await sent(2);
    expect(second.headers["X-CSRF-Token"]).toBe("new");
    expect(second.headers["Idempotency-Key"]).toBe(requests[0]?.headers["Idempotency-Key"]);
    second.answer(201, FILE);
    expect(await done).toEqual(FILE);
  });

  it("is not put among the files of somebody else", async () => {
    knows({ user: "u2", csrf: "new" });
    const { done } = begun();
    (await sent(1)).answer(403, STALE);
    await expect(done).rejects.toThrow("Forged.");
    expect(requests).toHaveLength(1);
  });

  it("that is stopped goes no further", async () => {
    const { done, cancel } = begun();
    cancel();
    await expect(done).rejects.toThrow("stopped");
    expect(requests.map(({ aborted }) => aborted)).toEqual([true]);
  });

  it("that is stopped before it is tried again is not", async () => {
    knows({ csrf: "new" });
    const { done, cancel } = begun();
    (await sent(1)).answer(403, STALE);
    cancel();
    await expect(done).rejects.toThrow("stopped");
    expect(requests).toHaveLength(1);
  });

  it("ends also when something in between answers for the server", async () => {
    const { done } = begun();
    (await sent(1)).answer(200, "<p>Sign in to the network</p>");
    await expect(done).rejects.toThrow("cannot be reached");
  });
});
