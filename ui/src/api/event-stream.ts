/**
 * A stream that reconnects by itself and resumes after the last event received.
 *
 * By WebSocket, because a browser allows only six other connections to a server, of all tabs
 * together. What comes within a frame of the screen is handed on together.
 */

import { Store } from "../reactive/store";
import { isBack, isBroken, isOver } from "./outage";
import { sessionKey } from "./session-key";

export type LineState =
  | { readonly is: "opening" }
  | { readonly is: "open" }
  /** It broke, and is tried again at a time (by this page's clock) for the nth time. */
  | { readonly is: "broken"; readonly retryAt: number; readonly tries: number }
  /** The server ended it for good. */
  | { readonly is: "ended"; readonly reason: string };

interface Said {
  readonly id: string | null;
  readonly event: string;
  readonly data: unknown;
}

const FIRST_WAIT = 500;
const LONGEST_WAIT = 10_000;
/** Until the server has answered at all. */
const LONGEST_GREETING = 10_000;
/** Longer than two heartbeats of the server. */
const SILENCE = 40_000;
/** A connection that broke before was not a good one: the next is waited for longer. */
const STEADY = 5_000;
/** Interval while the page is hidden, when there are no animation frames. */
const HIDDEN_PAUSE = 250;

export interface LineOptions<E> {
  readonly path: string;
  /** Takes events in their order, at most once for each frame of the screen. */
  readonly take: (events: readonly E[]) => void;
  /** Where the first connection begins, when not now. */
  readonly from?: () => string;
  /** Asked when it could not be opened, for browsers do not say why, or was taken back. False: give up. */
  readonly mayRetry?: () => Promise<boolean>;
}

export class Line<E extends Said> {
  readonly state = new Store<LineState>({ is: "opening" });
  readonly #options: LineOptions<E>;
  #cursor: string | null = null;
  #socket: WebSocket | null = null;
  /** When the connection was opened; null while it is not. */
  #openedAt: number | null = null;
  #heardAt = 0;
  #tries = 0;
  #buffer: E[] = [];
  #flushing: { cancel(): void } | null = null;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #silence: ReturnType<typeof setTimeout> | undefined;
  #isOpen = false;

  constructor(options: LineOptions<E>) {
    this.#options = options;
  }

  open(): void {
    if (this.#isOpen) return;
    this.#isOpen = true;
    this.#tries = 0;
    this.state.set({ is: "opening" });
    addEventListener("online", this.#hurry);
    addEventListener("offline", this.#cut);
    document.addEventListener("visibilitychange", this.#hurry);
    // Not at once: it may be closed in the same tick.
    this.#timer = setTimeout(() => this.#connect(), 0);
  }

  /** Keeps the cursor: opened again, the stream resumes from there. */
  close(): void {
    this.#isOpen = false;
    removeEventListener("online", this.#hurry);
    removeEventListener("offline", this.#cut);
    document.removeEventListener("visibilitychange", this.#hurry);
    clearTimeout(this.#timer);
    this.#flushing?.cancel();
    this.#flushing = null;
    this.#buffer = []; // comes again
    this.#drop();
    isOver(this);
  }

  /** Now, and not when its time has come. */
  retry(): void {
    if (this.#isOpen && this.#socket === null && this.state.get().is === "broken") {
      this.#tries = 0;
      this.#connect();
    }
  }

  #connect(): void {
    clearTimeout(this.#timer);
    this.#drop();
    const socket = new WebSocket(this.#address(), protocols());
    this.#socket = socket;
    const mine = <A>(call: (given: A) => void) => {
      return (given: A) => {
        if (this.#socket === socket) call(given);
      };
    };
    socket.onopen = mine(() => this.#opened());
    socket.onmessage = mine(({ data }: MessageEvent) => this.#read(data));
    socket.onclose = mine(() => void this.#lost());
    this.#silence = setTimeout(this.#cut, LONGEST_GREETING);
  }

  #address(): URL {
    const url = new URL(this.#options.path, location.href);
    url.protocol = url.protocol.replace("http", "ws");
    this.#cursor ??= this.#options.from?.() ?? null;
    if (this.#cursor !== null) url.searchParams.set("cursor", this.#cursor);
    return url;
  }

  #opened(): void {
    this.#openedAt = Date.now();
    this.#listen();
    this.state.set({ is: "open" });
    isBack(this);
  }

  #read(data: string): void {
    this.#listen();
    let said: E;
    try {
      said = JSON.parse(data) as E;
    } catch {
      void this.#lost(); // something in between speaks for the server
      return;
    }
    this.#hear(said);
  }

  #hear(said: E): void {
    if (said.event === "beat") return;
    if (said.event === "end") {
      const end = said.data as { reason: string; reconnect: boolean };
      if (end.reconnect) void this.#lost();
      else if (end.reason === "revoked") void this.#revoked();
      else this.#end(end.reason);
      return;
    }
    this.#buffer.push(said);
    this.#flushing ??= soon(() => {
      if (!this.#flush()) void this.#lost();
    });
  }

  /** Whether all of it was taken. What was not comes again, on another connection. */
  #flush(): boolean {
    this.#flushing?.cancel();
    this.#flushing = null;
    const taken = this.#buffer;
    this.#buffer = [];
    if (taken.length === 0) return true;
    try {
      this.#options.take(taken);
    } catch (error) {
      reportError(error);
      return false;
    }
    this.#cursor = taken.findLast((each) => each.id !== null)?.id ?? this.#cursor;
    return true;
  }

  async #lost(): Promise<void> {
    const openedAt = this.#openedAt;
    this.#drop();
    this.#flush();
    if (!this.#isOpen) return; // a handler of the last events closed it
    const timer = this.#tryLater(openedAt);
    if (openedAt !== null || this.#options.mayRetry === undefined) return;
    const may = await this.#options.mayRetry();
    // Meanwhile it may have been closed, or tried once more.
    if (!may && this.#isOpen && this.#timer === timer && this.#openedAt === null) {
      this.#end("refused");
    }
  }

  /** It may only have been the session of before: another tab may have signed in anew. */
  async #revoked(): Promise<void> {
    const openedAt = this.#openedAt;
    this.#drop();
    this.#flush();
    const may = (await this.#options.mayRetry?.()) ?? false;
    if (!this.#isOpen || this.#socket !== null) return;
    if (may) this.#tryLater(openedAt);
    else this.#end("revoked");
  }

  #tryLater(openedAt: number | null): ReturnType<typeof setTimeout> {
    if (openedAt !== null && Date.now() - openedAt >= STEADY) this.#tries = 0;
    const wait = Math.min(FIRST_WAIT * 2 ** this.#tries, LONGEST_WAIT);
    const jittered = wait * (0.7 + 0.6 * Math.random());
    this.#tries += 1;
    const how = { retryAt: Date.now() + jittered, tries: this.#tries };
    this.state.set({ is: "broken", ...how });
    isBroken(this, how);
    clearTimeout(this.#timer);
    const timer = setTimeout(() => this.#connect(), jittered);
    this.#timer = timer;
    return timer;
  }

  #end(reason: string): void {
    clearTimeout(this.#timer);
    this.#drop();
    this.#flush();
    this.state.set({ is: "ended", reason });
    isOver(this);
  }

  #drop(): void {
    clearTimeout(this.#silence);
    const socket = this.#socket;
    this.#socket = null;
    this.#openedAt = null;
    socket?.close();
  }

  /** A network that is cut says nothing: neither does the browser, for minutes. */
  #listen(): void {
    this.#heardAt = Date.now();
    clearTimeout(this.#silence);
    this.#silence = setTimeout(this.#cut, SILENCE);
  }

  readonly #cut = (): void => {
    if (this.#socket !== null) void this.#lost();
  };

  /** The page is visible again, or the network is back. */
  readonly #hurry = (): void => {
    if (document.hidden) return;
    // A computer that slept did not count the seconds.
    if (this.#openedAt !== null && Date.now() - this.#heardAt > SILENCE) this.#cut();
    this.retry();
  };
}

/** The one header that a page can choose for a WebSocket: the key goes beside the real protocol. */
function protocols(): string[] {
  const key = sessionKey();
  return key === null ? ["holdfast"] : ["holdfast", key];
}

/** Before the next frame of the screen; a page that is hidden has none, and is called all the same. */
function soon(call: () => void): { cancel(): void } {
  const once = () => {
    cancel();
    call();
  };
  const frame = requestAnimationFrame(once);
  const timer = setTimeout(once, HIDDEN_PAUSE);
  const cancel = () => {
    cancelAnimationFrame(frame);
    clearTimeout(timer);
  };
  return { cancel };
}
