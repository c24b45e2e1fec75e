import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

type Answer = { status: number; body: unknown } | "away";

let answers: Record<string, Answer>;
let requests: string[];

beforeEach(() => {
  vi.resetModules();
  answers = {};
  requests = [];
  const storage = new Map<string, string>();
  vi.stubGlobal("localStorage", {
    length: 0,
    getItem: (name: string) => storage.get(name) ?? null,
    setItem: (name: string, value: string) => storage.set(name, value),
    removeItem: (name: string) => storage.delete(name),
  });
  vi.stubGlobal("location", { hash: "", pathname: "/chats/c1", search: "?archived=yes" });
  vi.stubGlobal("history", {
    state: null,
    replaceState: (_: unknown, __: string, to: string) => {
      location.hash = "";
      requests.push(`address ${to}`);
    },
  });
  vi.stubGlobal("fetch", async (url: string, { method = "GET", body, headers }: RequestInit) => {
    const token = new Headers(headers).get("Authorization");
    const name = `${method} ${url.replace("/api/v1", "")}`;
    requests.push(body ? `${name} ${body}` : name);
    const answer = answers[`${name} by ${token}`] ?? answers[name] ?? "away";
    if (answer === "away") throw new TypeError("Failed to fetch");
    return new Response(JSON.stringify(answer.body), { status: answer.status });
  });
});
afterEach(() => vi.unstubAllGlobals());

const ME = { status: 200, body: { user: "", mode: "local" } };
const OK = { status: 200, body: { key: "hfk_new" } };
const NOBODY = { status: 401, body: { kind: "unauthorized", status: 401, detail: "Who are you?" } };

async function loadPage() {
  const module = await import("./session");
  await module.startSession();
  return module;
}

describe("a token in the URL", () => {
  it("is removed and exchanged, and the rest of the URL stays", async () => {
    location.hash = "#token=hf_1";
    answers = { "POST /session": OK, "GET /me": NOBODY };
    await loadPage();
    expect(requests.slice(0, 3)).toEqual([
      "address /chats/c1?archived=yes",
      "GET /me",
      'POST /session {"token":"hf_1"}',
    ]);
  });

  it("of the signed-in user renews the session", async () => {
    location.hash = "#token=hf_1";
    answers = { "POST /session": OK, "GET /me": ME };
    const { session } = await loadPage();
    expect(requests).toContain('POST /session {"token":"hf_1"}');
    expect(session.get().is).toBe("in");
  });

  it("of another user is used only after confirmation", async () => {
    location.hash = "#token=hf_2";
    const other = { status: 200, body: { ...ME.body, user: "u2", name: "Ben" } };
    answers = { "POST /session": OK, "GET /me": ME, "GET /me by Bearer hf_2": other };
    const { session, signIn, staySignedIn } = await loadPage();
    expect(session.get()).toMatchObject({
      is: "conflict",
      me: { user: "" },
      other: { user: "u2" },
    });
    expect(requests.filter((each) => each.startsWith("POST"))).toEqual([]);
    await staySignedIn();
    expect(session.get()).toMatchObject({ is: "in", me: { user: "" } });
    answers["GET /me"] = other;
    await signIn("hf_2");
    expect(session.get()).toMatchObject({ is: "in", me: { user: "u2" } });
  });

  it("is not lost while the server is unreachable", async () => {
    location.hash = "#token=hf_1";
    const { session, startSession } = await loadPage();
    expect(session.get().is).toBe("unreachable");
    answers = { "POST /session": OK, "GET /me": ME };
    await startSession();
    expect(requests).toContain('POST /session {"token":"hf_1"}');
    expect(session.get().is).toBe("in");
  });

  it("that is refused leaves a valid earlier cookie in use", async () => {
    location.hash = "#token=hf_old";
    answers = { "POST /session": NOBODY, "GET /me": ME };
    expect((await loadPage()).session.get().is).toBe("in");
  });

  it("that is refused leads to an error, and is not sent again", async () => {
    location.hash = "#token=hf_old";
    answers = { "POST /session": NOBODY, "GET /me": NOBODY };
    const { session, startSession } = await loadPage();
    expect(session.get()).toEqual({ is: "out", why: "Who are you?" });
    await startSession();
    expect(requests.filter((each) => each.startsWith("POST"))).toHaveLength(1);
  });
});

describe("loading the user", () => {
  it("happens once, however often it is started", async () => {
    answers = { "GET /me": ME };
    const { startSession } = await import("./session");
    await Promise.all([startSession(), startSession(), startSession()]);
    expect(requests).toEqual(["GET /me"]);
  });

  it("shows the sign-in form after a 401, and not while the server is unreachable", async () => {
    answers = { "GET /me": ME };
    const { session, isStillSignedIn } = await loadPage();
    answers = {};
    expect(await isStillSignedIn()).toBe(true);
    expect(session.get().is).toBe("in");
    answers = { "GET /me": NOBODY };
    expect(await isStillSignedIn()).toBe(false);
    expect(session.get().is).toBe("out");
  });
});

describe("a token", () => {
  it("that was typed is not lost while the server is unreachable", async () => {
    answers = { "GET /me": NOBODY };
    const { session, signIn, startSession } = await loadPage();
    await signIn("hf_1");
    expect(session.get().is).toBe("unreachable");
    answers = { "POST /session": OK, "GET /me": ME };
    await startSession();
    expect(session.get().is).toBe("in");
  });

  it("in a URL that is opened in the open page is used too", async () => {
    const window = new EventTarget();
    vi.stubGlobal("addEventListener", window.addEventListener.bind(window));
    answers = { "GET /me": NOBODY };
    const { session, restartOnTokenInUrl, startSession } = await loadPage();
    restartOnTokenInUrl();
    answers = { "POST /session": OK, "GET /me": ME };
    location.hash = "#m12";
    window.dispatchEvent(new Event("hashchange"));
    expect(requests.filter((each) => each.startsWith("POST"))).toHaveLength(0);
    location.hash = "#token=hf_1";
    window.dispatchEvent(new Event("hashchange"));
    await startSession();
    expect(location.hash).toBe("");
    expect(session.get().is).toBe("in");
  });

  it("in the URL is used also while the user is being loaded", async () => {
    answers = { "POST /session": OK, "GET /me": NOBODY };
    const { startSession } = await import("./session");
    const first = startSession();
    location.hash = "#token=hf_1";
    await Promise.all([first, startSession()]);
    expect(requests.filter((each) => each.startsWith("POST"))).toHaveLength(1);
  });
});

describe("another tab", () => {
  /** Signs in: the browser has its cookie and its key from now on. */
  function signsIn() {
    localStorage.setItem("holdfast.session-key", "hfk_other");
  }

  it("that signs in as the same user does not interrupt this one", async () => {
    answers = { "GET /me": ME, "POST /chats": NOBODY };
    await loadPage();
    const { call } = await import("./request");
    signsIn();
    const answer = fetch;
    vi.stubGlobal("fetch", (url: string, init: RequestInit) => {
      const key = new Headers(init.headers).get("X-Session-Key");
      if (url.endsWith("/me") || key !== "hfk_other") return answer(url, init);
      return Promise.resolve(new Response('{"id":"c1"}'));
    });
    expect(await call("POST /chats", { body: {} })).toEqual({ id: "c1" });
  });

  it("that signs in as another user switches this one, and no request is sent in the new user's name", async () => {
    answers = { "GET /me": ME, "POST /chats": NOBODY };
    const { session } = await loadPage();
    const { call } = await import("./request");
    signsIn();
    answers["GET /me"] = { status: 200, body: { ...ME.body, user: "u2" } };
    await expect(call("POST /chats", { body: {} })).rejects.toThrow("Who are you?");
    expect(requests.filter((each) => each.startsWith("POST"))).toHaveLength(1);
    expect(session.get()).toMatchObject({ is: "in", me: { user: "u2" } });
  });

  it("that signs in also signs in a tab with the sign-in form", async () => {
    const window = new EventTarget();
    vi.stubGlobal("addEventListener", window.addEventListener.bind(window));
    answers = { "GET /me": NOBODY };
    const { session, startSession, restartOnSignInElsewhere } = await loadPage();
    restartOnSignInElsewhere();
    expect(session.get().is).toBe("out");
    signsIn();
    answers = { "GET /me": ME };
    const told = { key: "holdfast.session-key", newValue: "hfk_other" };
    window.dispatchEvent(Object.assign(new Event("storage"), told));
    await startSession();
    expect(session.get().is).toBe("in");
    const { sessionKey } = await import("./session-key");
    expect(sessionKey()).toBe("hfk_other");
  });

  it("that signs in while this one loads its user signs it in", async () => {
    answers = { "GET /me": NOBODY };
    const answer = fetch;
    vi.stubGlobal("fetch", async (url: string, init: RequestInit) => {
      const refused = await answer(url, init);
      signsIn();
      answers = { "GET /me": ME };
      return refused;
    });
    expect((await loadPage()).session.get().is).toBe("in");
  });

  it("of another user gets no request that was made before it signed in", async () => {
    answers = { "GET /me": NOBODY, "POST /chats": NOBODY };
    await loadPage();
    const { call } = await import("./request");
    signsIn();
    answers["GET /me"] = { status: 200, body: { ...ME.body, user: "u2" } };
    await expect(call("POST /chats", { body: {} })).rejects.toThrow("Who are you?");
    expect(requests.filter((each) => each.startsWith("POST"))).toHaveLength(1);
  });
});

describe("the key of a session", () => {
  it("is stored at sign-in, sent with every request, and removed at sign-out", async () => {
    const keys: Record<string, string | null> = {};
    answers = { "POST /session": OK, "GET /me": ME, "DELETE /session": OK };
    const answer = fetch;
    vi.stubGlobal("fetch", (url: string, init: RequestInit) => {
      keys[`${init.method} ${url}`] = new Headers(init.headers).get("X-Session-Key");
      return answer(url, init);
    });
    const { signIn, signOut } = await loadPage();
    expect(keys["GET /api/v1/me"]).toBeNull();
    await signIn("hf_1");
    expect(localStorage.getItem("holdfast.session-key")).toBe("hfk_new");
    expect(keys["GET /api/v1/me"]).toBe("hfk_new");
    await signOut();
    expect(keys["DELETE /api/v1/session"]).toBe("hfk_new");
    expect(localStorage.getItem("holdfast.session-key")).toBeNull();
  });

  it("is not sent with the token of another user", async () => {
    location.hash = "#token=hf_2";
    localStorage.setItem("holdfast.session-key", "hfk_1");
    const shown: (string | null)[] = [];
    const other = { status: 200, body: { ...ME.body, user: "u2" } };
    answers = { "GET /me": ME, "GET /me by Bearer hf_2": other };
    const answer = fetch;
    vi.stubGlobal("fetch", (url: string, init: RequestInit) => {
      shown.push(new Headers(init.headers).get("X-Session-Key"));
      return answer(url, init);
    });
    await loadPage();
    expect(shown).toEqual(["hfk_1", null]);
  });
});

it("signing out of an expired session succeeds", async () => {
  answers = { "GET /me": ME, "DELETE /session": NOBODY };
  const { session, signOut } = await loadPage();
  await signOut();
  expect(session.get().is).toBe("out");
});
