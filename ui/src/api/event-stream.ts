/**
 * A stream that reconnects by itself and resumes after the last event received.
 *
 * It uses a WebSocket, because browsers allow only six HTTP connections to a server for all tabs
 * together. Events that arrive within one animation frame are delivered together.
 */

import { Store } from "../reactive/store";
import { clearBroken, reportBroken, reportReconnected } from "./outage";
import { sessionKey } from "./session-key";

export type StreamState =
  | { readonly is: "opening" }
  | { readonly is: "open" }
  /** It broke, and is tried again at a time (by this page's clock) for the nth time. */
  | { readonly is: "broken"; readonly retryAt: number; readonly tries: number }
  /** The server ended it for good. */
  | { readonly is: "ended"; readonly reason: string };

interface StreamEvent {
  readonly id: string | null;
  readonly event: string;
  readonly data: unknown;
}

const FIRST_WAIT = 500;
const MAX_WAIT = 10_000;
/** Until the server has answered at all. */
const CONNECT_TIMEOUT = 10_000;
/** Longer than two heartbeats of the server. */
const IDLE_TIMEOUT = 40_000;
/** A connection that broke before was not a good one: the next is waited for longer. */
const STABLE_AFTER = 5_000;
/** Interval while the page is hidden, when there are no animation frames. */
const HIDDEN_INTERVAL = 250;

export interface StreamOptions<E> {
  readonly path: string;
  /** Takes events in their order, at most once for each frame of the screen. */
  readonly onEvents: (events: readonly E[]) => void;
  /** Cursor for the first connection; now if absent. */
  readonly from?: () => string;
  /** Asked after a failed or revoked connection: browsers do not say why. False: give up. */
  readonly mayRetry?: () => Promise<boolean>;
}

export class EventStream<E extends StreamEvent> {
  readonly state = new Store<StreamState>({ is: "opening" });
  readonly #options: StreamOptions<E>;
  #cursor: string | null = null;
  #socket: WebSocket | null = null;
  /** When the connection was opened; null while it is not. */
  #openedAt: number | null = null;
  #receivedAt = 0;
  #tries = 0;
  #buffer: E[] = [];
  #scheduledFlush: { cancel(): void } | null = null;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #idleTimer: ReturnType<typeof setTimeout> | undefined;
  #isOpen = false;

  constructor(options: StreamOptions<E>) {
    this.#options = options;
  }

  open(): void {
    if (this.#isOpen) return;
    this.#isOpen = true;
    this.#tries = 0;
    this.state.set({ is: "opening" });
    addEventListener("online", this.#onPageActive);
    addEventListener("offline", this.#giveUpSocket);
    document.addEventListener("visibilitychange", this.#onPageActive);
    // Not at once: it may be closed in the same tick.
    this.#timer = setTimeout(() => this.#connect(), 0);
  }

  /** Keeps the cursor: opened again, the stream resumes from there. */
  close(): void {
    this.#isOpen = false;
    removeEventListener("online", this.#onPageActive);
    removeEventListener("offline", this.#giveUpSocket);
    document.removeEventListener("visibilitychange", this.#onPageActive);
    clearTimeout(this.#timer);
    this.#scheduledFlush?.cancel();
    this.#scheduledFlush = null;
    this.#buffer = []; // comes again
    this.#dropSocket();
    clearBroken(this);
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
    this.#dropSocket();
    const socket = new WebSocket(this.#address(), protocols());
    this.#socket = socket;
    const ifCurrent = <A>(call: (argument: A) => void) => {
      return (argument: A) => {
        if (this.#socket === socket) call(argument);
      };
    };
    socket.onopen = ifCurrent(() => this.#onOpen());
    socket.onmessage = ifCurrent(({ data }: MessageEvent) => this.#onMessage(data));
    socket.onclose = ifCurrent(() => void this.#onLost());
    this.#idleTimer = setTimeout(this.#giveUpSocket, CONNECT_TIMEOUT);
  }

  #address(): URL {
    const url = new URL(this.#options.path, location.href);
    url.protocol = url.protocol.replace("http", "ws");
    this.#cursor ??= this.#options.from?.() ?? null;
    if (this.#cursor !== null) url.searchParams.set("cursor", this.#cursor);
    return url;
  }

  #onOpen(): void {
    this.#openedAt = Date.now();
    this.#restartIdleTimer();
    this.state.set({ is: "open" });
    reportReconnected(this);
  }

  #onMessage(data: string): void {
    this.#restartIdleTimer();
    let event: E;
    try {
      event = JSON.parse(data) as E;
    } catch {
      void this.#onLost(); // not from this server
      return;
    }
    this.#receive(event);
  }

  #receive(event: E): void {
    if (event.event === "beat") return;
    if (event.event === "end") {
      const end = event.data as { reason: string; reconnect: boolean };
      if (end.reconnect) void this.#onLost();
      else if (end.reason === "revoked") void this.#onRevoked();
      else this.#end(end.reason);
      return;
    }
    this.#buffer.push(event);
    this.#scheduledFlush ??= onNextFrame(() => {
      if (!this.#flush()) void this.#onLost();
    });
  }

  /** Whether all of it was taken. What was not comes again, on another connection. */
  #flush(): boolean {
    this.#scheduledFlush?.cancel();
    this.#scheduledFlush = null;
    const events = this.#buffer;
    this.#buffer = [];
    if (events.length === 0) return true;
    try {
      this.#options.onEvents(events);
    } catch (error) {
      reportError(error);
      return false;
    }
    this.#cursor = events.findLast((each) => each.id !== null)?.id ?? this.#cursor;
    return true;
  }

  async #onLost(): Promise<void> {
    const openedAt = this.#openedAt;
    this.#dropSocket();
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

  /** Only the previous session may be revoked: another tab may have signed in since. */
  async #onRevoked(): Promise<void> {
    const openedAt = this.#openedAt;
    this.#dropSocket();
    this.#flush();
    const may = (await this.#options.mayRetry?.()) ?? false;
    if (!this.#isOpen || this.#socket !== null) return;
    if (may) this.#tryLater(openedAt);
    else this.#end("revoked");
  }

  #tryLater(openedAt: number | null): ReturnType<typeof setTimeout> {
    if (openedAt !== null && Date.now() - openedAt >= STABLE_AFTER) this.#tries = 0;
    const wait = Math.min(FIRST_WAIT * 2 ** this.#tries, MAX_WAIT);
    const jittered = wait * (0.7 + 0.6 * Math.random());
    this.#tries += 1;
    const outage = { retryAt: Date.now() + jittered, tries: this.#tries };
    this.state.set({ is: "broken", ...outage });
    reportBroken(this, outage);
    clearTimeout(this.#timer);
    const timer = setTimeout(() => this.#connect(), jittered);
    this.#timer = timer;
    return timer;
  }

  #end(reason: string): void {
    clearTimeout(this.#timer);
    this.#dropSocket();
    this.#flush();
    this.state.set({ is: "ended", reason });
    clearBroken(this);
  }

  #dropSocket(): void {
    clearTimeout(this.#idleTimer);
    const socket = this.#socket;
    this.#socket = null;
    this.#openedAt = null;
    socket?.close();
  }

  /** A network that is cut says nothing: neither does the browser, for minutes. */
  #restartIdleTimer(): void {
    this.#receivedAt = Date.now();
    clearTimeout(this.#idleTimer);
    this.#idleTimer = setTimeout(this.#giveUpSocket, IDLE_TIMEOUT);
  }

  readonly #giveUpSocket = (): void => {
    if (this.#socket !== null) void this.#onLost();
  };

  /** The page is visible again, or the network is back. */
  readonly #onPageActive = (): void => {
    if (document.hidden) return;
    // A computer that slept did not count the seconds.
    if (this.#openedAt !== null && Date.now() - this.#receivedAt > IDLE_TIMEOUT)
      this.#giveUpSocket();
    this.retry();
  };
}

/** The one header that a page can choose for a WebSocket: the key goes beside the real protocol. */
function protocols(): string[] {
  const key = sessionKey();
  return key === null ? ["holdfast"] : ["holdfast", key];
}

/** Calls back before the next animation frame, or after an interval if the page is hidden. */
function onNextFrame(call: () => void): { cancel(): void } {
  const once = () => {
    cancel();
    call();
  };
  const frame = requestAnimationFrame(once);
  const timer = setTimeout(once, HIDDEN_INTERVAL);
  const cancel = () => {
    cancelAnimationFrame(frame);
    clearTimeout(timer);
  };
  return { cancel };
}
