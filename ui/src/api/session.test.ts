import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

type Answer = { status: number; body: unknown } | "away";

let answers: Record<string, Answer>;
let asked: string[];

beforeEach(() => {
  vi.resetModules();
  answers = {};
  asked = [];
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
      asked.push(`address ${to}`);
    },
  });
  vi.stubGlobal("fetch", async (url: string, { method = "GET", body, headers }: RequestInit) => {
    const token = new Headers(headers).get("Authorization");
    const name = `${method} ${url.replace("/api/v1", "")}`;
    asked.push(body ? `${name} ${body}` : name);
    const answer = answers[`${name} by ${token}`] ?? answers[name] ?? "away";
    if (answer === "away") throw new TypeError("Failed to fetch");
    return new Response(JSON.stringify(answer.body), { status: answer.status });
  });
});
afterEach(() => vi.unstubAllGlobals());

const ME = { status: 200, body: { user: "", mode: "local" } };
const OK = { status: 200, body: { key: "hfk_new" } };
const NOBODY = { status: 401, body: { kind: "unauthorized", status: 401, detail: "Who are you?" } };

async function begun() {
  const module = await import("./session");
  await module.startSession();
  return module;
}

describe("a token in the address", () => {
  it("is taken out of it and exchanged, and the rest of the address stays", async () => {
    location.hash = "#token=hf_1";
    answers = { "POST /session": OK, "GET /me": NOBODY };
    await begun();
    expect(asked.slice(0, 3)).toEqual([
      "address /chats/c1?archived=yes",
      "GET /me",
      'POST /session {"token":"hf_1"}',
    ]);
  });

  it("of whoever is signed in already signs them in anew", async () => {
    location.hash = "#token=hf_1";
    answers = { "POST /session": OK, "GET /me": ME };
    const { session } = await begun();
    expect(asked).toContain('POST /session {"token":"hf_1"}');
    expect(session.get().is).toBe("in");
  });

  it("of somebody else than who is signed in is used only when they say so", async () => {
    location.hash = "#token=hf_2";
    const other = { status: 200, body: { ...ME.body, user: "u2", name: "Ben" } };
    answers = { "POST /session": OK, "GET /me": ME, "GET /me by Bearer hf_2": other };
    const { session, signIn, staySignedIn } = await begun();
    expect(session.get()).toMatchObject({
      is: "conflict",
      me: { user: "" },
      other: { user: "u2" },
    });
    expect(asked.filter((each) => each.startsWith("POST"))).toEqual([]);
    await staySignedIn();
    expect(session.get()).toMatchObject({ is: "in", me: { user: "" } });
    answers["GET /me"] = other;
    await signIn("hf_2");
    expect(session.get()).toMatchObject({ is: "in", me: { user: "u2" } });
  });

  it("is not lost when the server is not there yet", async () => {
    location.hash = "#token=hf_1";
    const { session, startSession } = await begun();
    expect(session.get().is).toBe("unreachable");
    answers = { "POST /session": OK, "GET /me": ME };
    await startSession();
    expect(asked).toContain('POST /session {"token":"hf_1"}');
    expect(session.get().is).toBe("in");
  });

  it("that is refused leaves the cookie of before, if it is good", async () => {
    location.hash = "#token=hf_old";
    answers = { "POST /session": NOBODY, "GET /me": ME };
    expect((await begun()).session.get().is).toBe("in");
  });

  it("that is refused is said so, and not shown again", async () => {
    location.hash = "#token=hf_old";
    answers = { "POST /session": NOBODY, "GET /me": NOBODY };
    const { session, startSession } = await begun();
    expect(session.get()).toEqual({ is: "out", why: "Who are you?" });
    await startSession();
    expect(asked.filter((each) => each.startsWith("POST"))).toHaveLength(1);
  });
});

describe("asking who it is", () => {
  it("is done once, however often it is begun", async () => {
    answers = { "GET /me": ME };
    const { startSession } = await import("./session");
    await Promise.all([startSession(), startSession(), startSession()]);
    expect(asked).toEqual(["GET /me"]);
  });

  it("locks out whom the server does not know, and nobody because it is away", async () => {
    answers = { "GET /me": ME };
    const { session, isStillSignedIn } = await begun();
    answers = {};
    expect(await isStillSignedIn()).toBe(true);
    expect(session.get().is).toBe("in");
    answers = { "GET /me": NOBODY };
    expect(await isStillSignedIn()).toBe(false);
    expect(session.get().is).toBe("out");
  });
});

describe("a token", () => {
  it("that was typed is not lost when the server is away just then", async () => {
    answers = { "GET /me": NOBODY };
    const { session, signIn, startSession } = await begun();
    await signIn("hf_1");
    expect(session.get().is).toBe("unreachable");
    answers = { "POST /session": OK, "GET /me": ME };
    await startSession();
    expect(session.get().is).toBe("in");
  });

  it("in an address that is opened where the page is open is taken too", async () => {
    const window = new EventTarget();
    vi.stubGlobal("addEventListener", window.addEventListener.bind(window));
    answers = { "GET /me": NOBODY };
    const { session, restartOnTokenInUrl, startSession } = await begun();
    restartOnTokenInUrl();
    answers = { "POST /session": OK, "GET /me": ME };
    location.hash = "#m12";
    window.dispatchEvent(new Event("hashchange"));
    expect(asked.filter((each) => each.startsWith("POST"))).toHaveLength(0);
    location.hash = "#token=hf_1";
    window.dispatchEvent(new Event("hashchange"));
    await startSession();
    expect(location.hash).toBe("");
    expect(session.get().is).toBe("in");
  });

  it("in the address is shown also when it was being asked who it is", async () => {
    answers = { "POST /session": OK, "GET /me": NOBODY };
    const { startSession } = await import("./session");
    const first = startSession();
    location.hash = "#token=hf_1";
    await Promise.all([first, startSession()]);
    expect(asked.filter((each) => each.startsWith("POST"))).toHaveLength(1);
  });
});

describe("another tab", () => {
  /** Signs in: the browser has its cookie and its key from now on. */
  function signsIn() {
    localStorage.setItem("holdfast.session-key", "hfk_other");
  }

  it("that signs in anew as the same person does not keep this one from anything", async () => {
    answers = { "GET /me": ME, "POST /chats": NOBODY };
    await begun();
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

  it("that signs in as somebody else makes this one theirs, and nothing is done in their name", async () => {
    answers = { "GET /me": ME, "POST /chats": NOBODY };
    const { session } = await begun();
    const { call } = await import("./request");
    signsIn();
    answers["GET /me"] = { status: 200, body: { ...ME.body, user: "u2" } };
    await expect(call("POST /chats", { body: {} })).rejects.toThrow("Who are you?");
    expect(asked.filter((each) => each.startsWith("POST"))).toHaveLength(1);
    expect(session.get()).toMatchObject({ is: "in", me: { user: "u2" } });
  });

  it("that signs in lets in one that waits for a sign-in", async () => {
    const window = new EventTarget();
    vi.stubGlobal("addEventListener", window.addEventListener.bind(window));
    answers = { "GET /me": NOBODY };
    const { session, startSession, restartOnSignInElsewhere } = await begun();
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

  it("that signs in while this one asks who it is lets it in", async () => {
    answers = { "GET /me": NOBODY };
    const answer = fetch;
    vi.stubGlobal("fetch", async (url: string, init: RequestInit) => {
      const refused = await answer(url, init);
      signsIn();
      answers = { "GET /me": ME };
      return refused;
    });
    expect((await begun()).session.get().is).toBe("in");
  });

  it("gets nothing of what this one was asked to do before it signed in", async () => {
    answers = { "GET /me": NOBODY, "POST /chats": NOBODY };
    await begun();
    const { call } = await import("./request");
    signsIn();
    answers["GET /me"] = { status: 200, body: { ...ME.body, user: "u2" } };
    await expect(call("POST /chats", { body: {} })).rejects.toThrow("Who are you?");
    expect(asked.filter((each) => each.startsWith("POST"))).toHaveLength(1);
  });
});

describe("the key of a session", () => {
  it("is kept at sign-in, sent with every request, and gone after signing out", async () => {
    const keys: Record<string, string | null> = {};
    answers = { "POST /session": OK, "GET /me": ME, "DELETE /session": OK };
    const answer = fetch;
    vi.stubGlobal("fetch", (url: string, init: RequestInit) => {
      keys[`${init.method} ${url}`] = new Headers(init.headers).get("X-Session-Key");
      return answer(url, init);
    });
    const { signIn, signOut } = await begun();
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
    await begun();
    expect(shown).toEqual(["hfk_1", null]);
  });
});

it("signing out of a session that is over is signing out", async () => {
  answers = { "GET /me": ME, "DELETE /session": NOBODY };
  const { session, signOut } = await begun();
  await signOut();
  expect(session.get().is).toBe("out");
});
