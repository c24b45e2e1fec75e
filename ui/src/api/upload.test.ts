import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { currentUser } from "./request";
import { storeSessionKey } from "./session-key";
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

const ME = { user: "u1" } as Me;
const STALE = { kind: "unauthenticated", status: 401, detail: "Unknown session." };
const FILE = { id: "f1" };

function startUpload() {
  const uploading = upload(new Blob(["x"]), "a.txt", () => {});
  // What is refused is looked at later.
  uploading.done.catch(() => {});
  return uploading;
}

/** Another tab has signed in, as this user. */
function signInElsewhere(me: Partial<Me> = {}): void {
  vi.stubGlobal("localStorage", { getItem: () => "new" });
  vi.stubGlobal("fetch", async () => new Response(JSON.stringify({ ...ME, ...me })));
}

async function waitForRequests(count: number): Promise<FakeRequest> {
  await vi.waitFor(() => expect(requests).toHaveLength(count));
  return requests[count - 1] as FakeRequest;
}

beforeEach(() => {
  requests = [];
  storeSessionKey("old");
  currentUser.set(ME);
  vi.stubGlobal("XMLHttpRequest", FakeRequest);
});
afterEach(() => {
  currentUser.set(null);
  vi.unstubAllGlobals();
});

describe("an upload", () => {
  it("is repeated with the same key when another tab has renewed the session", async () => {
    signInElsewhere();
    const { done } = startUpload();
    (await waitForRequests(1)).answer(401, STALE);
    const second = await waitForRequests(2);
    expect(second.headers["X-Session-Key"]).toBe("new");
    expect(second.headers["Idempotency-Key"]).toBe(requests[0]?.headers["Idempotency-Key"]);
    second.answer(201, FILE);
    expect(await done).toEqual(FILE);
  });

  it("is not repeated as another user", async () => {
    signInElsewhere({ user: "u2" });
    const { done } = startUpload();
    (await waitForRequests(1)).answer(401, STALE);
    await expect(done).rejects.toThrow("Unknown session.");
    expect(requests).toHaveLength(1);
  });

  it("that is cancelled stops", async () => {
    const { done, cancel } = startUpload();
    cancel();
    await expect(done).rejects.toThrow("cancelled");
    expect(requests.map(({ aborted }) => aborted)).toEqual([true]);
  });

  it("that is cancelled before it is repeated is not repeated", async () => {
    signInElsewhere();
    const { done, cancel } = startUpload();
    (await waitForRequests(1)).answer(401, STALE);
    cancel();
    await expect(done).rejects.toThrow("cancelled");
    expect(requests).toHaveLength(1);
  });

  it("ends also when something in between answers for the server", async () => {
    const { done } = startUpload();
    (await waitForRequests(1)).answer(200, "<p>Sign in to the network</p>");
    await expect(done).rejects.toThrow("cannot be reached");
  });
});
