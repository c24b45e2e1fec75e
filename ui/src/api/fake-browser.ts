/** A fake browser for tests: timers, `WebSocket`, and the server end of each connection. */

import { vi } from "vitest";
import type { EventStream } from "./event-stream";

export class FakeSocket {
  static all: FakeSocket[] = [];
  readonly url: URL;
  readonly protocols: readonly string[];
  onopen: ((event: unknown) => void) | null = null;
  onmessage: ((event: { data: string }) => void) | null = null;
  onclose: ((event: unknown) => void) | null = null;
  closed = false;

  constructor(url: URL, protocols: readonly string[] = []) {
    this.url = url;
    this.protocols = protocols;
    FakeSocket.all.push(this);
  }

  close(): void {
    this.closed = true;
  }

  get cursor(): string | null {
    return this.url.searchParams.get("cursor");
  }

  // --- what the server does ---

  accept(): void {
    this.onopen?.({});
  }

  send(event: string, data: unknown = null, id: string | null = null): void {
    this.onmessage?.({ data: JSON.stringify({ id, event, data }) });
  }

  /** Closes the connection; before `accept` this is a refusal. */
  break(): void {
    this.onclose?.({});
  }
}

export interface Browser {
  readonly document: EventTarget & { hidden: boolean };
  readonly sockets: readonly FakeSocket[];
  /** The newest connection. */
  readonly last: FakeSocket;
  readonly live: readonly FakeSocket[];
  fire(event: "online" | "offline"): void;
  show(visible: boolean): void;
}

/** Installs the fake browser with fake timers. */
export function fakeBrowser(): Browser {
  vi.useFakeTimers({ now: 1_000_000_000_000 });
  vi.spyOn(Math, "random").mockReturnValue(0.5);
  FakeSocket.all = [];
  const window = new EventTarget();
  const document = Object.assign(new EventTarget(), { hidden: false });
  vi.stubGlobal("WebSocket", FakeSocket);
  vi.stubGlobal("location", { href: "http://127.0.0.1:8765/chats/c1", pathname: "/", hash: "" });
  vi.stubGlobal("addEventListener", window.addEventListener.bind(window));
  vi.stubGlobal("removeEventListener", window.removeEventListener.bind(window));
  vi.stubGlobal("document", document);
  vi.stubGlobal("reportError", vi.fn());
  vi.stubGlobal("requestAnimationFrame", (call: () => void) => setTimeout(call, 16));
  vi.stubGlobal("cancelAnimationFrame", clearTimeout);
  return {
    document,
    get sockets() {
      return FakeSocket.all;
    },
    get last() {
      const last = FakeSocket.all.at(-1);
      if (last === undefined) throw new Error("nothing was connected");
      return last;
    },
    get live() {
      return FakeSocket.all.filter(({ closed }) => !closed);
    },
    fire: (event) => window.dispatchEvent(new Event(event)),
    show(visible) {
      document.hidden = !visible;
      document.dispatchEvent(new Event("visibilitychange"));
    },
  };
}

export function restoreBrowser(): void {
  vi.useRealTimers();
  vi.restoreAllMocks();
  vi.unstubAllGlobals();
}

/** Opens a stream and accepts its connection. */
export function connect(browser: Browser, line: Pick<EventStream<never>, "open">): FakeSocket {
  line.open();
  vi.advanceTimersByTime(0);
  browser.last.accept();
  return browser.last;
}
