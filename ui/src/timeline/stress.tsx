/**
 * The timeline with a generated chat, for measurements and pictures. It is not served: a separate
 * page, driven from outside by `window.stress`.
 */

import { flushSync } from "react-dom";
import { createRoot } from "react-dom/client";
import "../styles/tokens.css";
import "../styles/base.css";
import "../ui/ui.css";
import type { ChatEvent, Part, Stored } from "../api/types";
import {
  answer,
  call,
  chatEvent,
  delta,
  messageEvent,
  prompt,
  reset,
  result,
  results,
} from "../store/fixtures";
import { OpenChat } from "../store/open-chat";
import { applyEvents } from "../store/transcript";
import { gallery } from "./gallery";
import { Markdown } from "./markdown";
import { Timeline } from "./timeline";

const page = document.getElementById("page") as HTMLElement;
const root = createRoot(page);
const chat = new OpenChat("stress");

page.style.cssText = "display:flex;flex-direction:column;height:100vh";
root.render(<Timeline chat={chat} />);

function take(events: readonly ChatEvent[]): void {
  chat.transcript.change((before) => applyEvents(before, events, Date.now()));
}

const TEXT = `A paragraph with *emphasis*, **strong emphasis**, \`code\` and [a link](https://example.com/).

- one thing
- another thing with \`code\`
- [x] done

\`\`\`python
def greet(name: str) -> str:
    return f"Hello, {name}!"
\`\`\`

| name | size |
|:-----|-----:|
| \`a.txt\` | 12 |

> A quotation that is a little longer than the others, so that it takes more than a line.

`;

/** A turn of six messages: a prompt, two reads, a command, their results, an answer. */
function turn(first: number): Stored[] {
  const id = (name: string) => `${name}${first}`;
  const reads: Part[] = [
    call(id("a"), "read_file", { path: `src/part_${first}.py` }),
    call(id("b"), "search_files", { pattern: "TODO" }),
  ];
  const run = call(id("c"), "execute", { command: "make test" });
  return [
    prompt(first, `Question ${first}: what is in the files?`),
    answer(first + 1, reads),
    results(first + 2, [
      result(id("a"), "read_file", "    1\tone\n    2\ttwo"),
      result(id("b"), "search_files", "a.py:1: TODO\n1 match in 1 file."),
    ]),
    answer(first + 3, [{ type: "text", text: "Let me run the tests." }, run]),
    results(first + 4, [result(id("c"), "execute", "ok\n[exit code 0, 1.2 s]")]),
    answer(first + 5, TEXT),
  ];
}

interface Figures {
  readonly frames: number;
  readonly characters: number;
  readonly rows: number;
  /** Milliseconds of script and layout for a piece. */
  readonly work: { readonly p50: number; readonly p95: number; readonly max: number };
  /** From the beginning of a frame to the end of all that the page does for it. */
  readonly frame: { readonly p50: number; readonly p95: number; readonly max: number };
}

function figuresOf(values: readonly number[]) {
  const sorted = [...values].sort((one, other) => one - other);
  const at = (part: number) =>
    sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))];
  const round = (value: number | undefined) => Math.round((value ?? 0) * 100) / 100;
  return { p50: round(at(0.5)), p95: round(at(0.95)), max: round(sorted.at(-1)) };
}

/** In a frame of the screen: how long the work took, and how long the whole frame. */
function frame(work: () => void): Promise<readonly [number, number]> {
  return new Promise((done) => {
    requestAnimationFrame(() => {
      const began = performance.now();
      work();
      const worked = performance.now() - began;
      const { port1, port2 } = new MessageChannel();
      // Comes when the frame has been laid out and painted.
      port1.onmessage = () => done([worked, performance.now() - began]);
      port2.postMessage(null);
    });
  });
}

const stress = {
  /** So many rows of history, in one go. Gives the milliseconds until they are laid out. */
  fill(rows: number): number {
    const events: ChatEvent[] = [chatEvent({ status: "idle" })];
    for (let first = 1; events.length < rows * 1.5; first += 6) {
      events.push(...turn(first).map(messageEvent));
    }
    const began = performance.now();
    flushSync(() => take(events));
    void page.scrollHeight;
    return performance.now() - began;
  },

  /** An answer of so many characters, by so many for each frame; the first of them at once. */
  async grow(length: number, by = 40, text: string = TEXT, from = 0): Promise<Figures> {
    const whole = text.repeat(Math.ceil(length / text.length)).slice(0, length);
    const last = chat.transcript.get().messages.at(-1)?.number ?? 0;
    take([
      chatEvent({ status: "running", snapshot_version: 2 }),
      messageEvent(prompt(last + 1, "Go.")),
    ]);
    const scroller = document.querySelector(".timeline-scroll") as HTMLElement;
    const works: number[] = [];
    const frames: number[] = [];
    let seq = 0;
    for (let at = 0, next = from || by; at < whole.length; at = next, next += by) {
      seq += 1;
      const piece = delta(seq, { type: "text_delta", text: whole.slice(at, next) });
      performance.mark("piece");
      const [worked, took] = await frame(() => {
        flushSync(() => take([piece]));
        void scroller.scrollHeight;
      });
      works.push(worked);
      frames.push(took);
    }
    take([messageEvent(answer(last + 2, whole)), reset("live")]);
    take([chatEvent({ status: "idle", snapshot_version: 3 })]);
    const rows = document.querySelectorAll("[data-row]").length;
    return {
      frames: works.length,
      characters: whole.length,
      rows,
      work: figuresOf(works),
      frame: figuresOf(frames),
    };
  },

  /** One of everything. */
  gallery(): void {
    take(gallery());
  },

  /** Shows any text as an answer, to check how it is rendered. */
  markdown(text: string, growing = false): void {
    flushSync(() => root.render(<Markdown text={text} growing={growing} />));
  },

  take,
  chat,
};

declare global {
  interface Window {
    stress: typeof stress;
  }
}

window.stress = stress;
