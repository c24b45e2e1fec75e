/**
 * The rows of the timeline, from a transcript. Pure but for its cache: a row whose message did not
 * change is the same object, so that it is not rendered again.
 */

import type {
  File,
  Part,
  Pending,
  Reasoning,
  Source,
  Stored,
  ToolCall,
  ToolResult,
} from "../api/types";
import { sameItems } from "../reactive/same-items";
import type { LiveCall } from "./live-output";
import type { Transcript } from "./transcript";

/** A call with its result, live output and pending action. */
export interface CallBlock {
  readonly type: "call";
  readonly call: ToolCall;
  readonly result: ToolResult | null;
  /** Time of the commit in microseconds; null if there is none. */
  readonly resultAt: number | null;
  /** Live output of the running call. */
  readonly live: LiveCall | null;
  /** The pending action it waits for. */
  readonly action: Pending | null;
  /** Its arguments are still being written. */
  readonly writing: boolean;
  /** Duration, from the stored result or the live one. */
  readonly seconds: number | null;
}

export type Block =
  | { readonly type: "text"; readonly text: string; readonly growing: boolean }
  | { readonly type: "reasoning"; readonly reasoning: Reasoning; readonly growing: boolean }
  | { readonly type: "file"; readonly file: File }
  | { readonly type: "source"; readonly source: Source }
  | CallBlock;

/** Duration and usage of a turn, shown below its last answer. */
export interface Turn {
  readonly steps: number;
  readonly micros: number;
  /** Milliseconds of that spent in model calls; null if unknown for one of them. */
  readonly model: number | null;
  readonly input: number;
  readonly output: number;
  /** Null when the price of a call is unknown. */
  readonly cost: number | null;
}

export type Row =
  | { readonly kind: "prompt"; readonly key: string; readonly stored: Stored }
  | {
      readonly kind: "answer";
      readonly key: string;
      /** Null while it is being written. */
      readonly stored: Stored | null;
      readonly blocks: readonly Block[];
      /** The turn that ends with this answer. */
      readonly turn: Turn | null;
      /** A restart interrupted it: the next attempt takes its place. */
      readonly isCut: boolean;
    }
  /** A summary that replaces the earlier messages for the model. */
  | { readonly kind: "checkpoint"; readonly key: string; readonly stored: Stored }
  /** A note of the system. */
  | { readonly kind: "note"; readonly key: string; readonly stored: Stored };

interface StoredResult {
  readonly result: ToolResult;
  readonly at: number;
}

interface Cached<T> {
  readonly from: readonly unknown[];
  readonly value: T;
}

export class RowBuilder {
  #cachedRows = new Map<number, Cached<Row | null>>();
  #from: readonly unknown[] = [];
  #calls: Transcript["live"]["calls"] = new Map();
  #rows: readonly Row[] = [];
  /** Row indexes by call id. An id may occur in several answers. */
  #rowsByCall = new Map<string, number[]>();
  #derived: { readonly from: readonly unknown[]; readonly derived: Derived } | null = null;
  /** Blocks by the part that they show. */
  readonly #blocks = new WeakMap<Part, Cached<Block | null>>();

  /** The committed rows, followed by the row being written, if any. */
  of(transcript: Transcript): readonly Row[] {
    const committed = this.committed(transcript);
    const growing = this.growing(transcript);
    return growing === null ? committed : [...committed, growing];
  }

  /** The committed rows. The same array until one changes: not while an answer grows. */
  committed(transcript: Transcript): readonly Row[] {
    const { messages, live, actions, chat } = transcript;
    const from = [messages, actions, chat?.status];
    if (!sameItems(this.#from, from)) {
      this.#from = from;
      this.#rows = this.#build(transcript);
      this.#rowsByCall = rowsByCall(this.#rows);
    } else if (live.calls !== this.#calls) this.#rows = this.#withCalls(transcript);
    this.#calls = live.calls;
    return this.#rows;
  }

  /** The row being written. It has the key of its later message, so that its elements stay. */
  growing({ chat, live, messages }: Transcript): Row | null {
    const cut = live.attempt === null ? (chat?.partial ?? null) : null;
    const isCut = cut !== null;
    const parts = cut?.parts ?? live.parts;
    if (parts.length === 0) return null;
    const next = (messages.at(-1)?.number ?? 0) + 1;
    const derived = { results: new Map(), live: live.calls, actions: new Map() };
    const blocks = this.#blocksOf(parts, derived, !isCut);
    return { kind: "answer", key: keyOf(next), stored: null, blocks, turn: null, isCut };
  }

  /** Rebuilds only the rows of changed calls: a call may print many times a second. */
  #withCalls(transcript: Transcript): readonly Row[] {
    const calls = this.#callIndex(transcript);
    const rows = [...this.#rows];
    for (const id of changedCalls(this.#calls, transcript.live.calls)) {
      for (const at of this.#rowsByCall.get(id) ?? []) {
        const row = rows[at];
        if (row?.kind !== "answer" || row.stored === null) continue;
        const remade = this.#rowOf(row.stored, row.turn, calls);
        this.#cachedRows.set(row.stored.number, {
          from: inputs(row.stored, row.turn, calls),
          value: remade,
        });
        if (remade !== null) rows[at] = remade;
      }
    }
    return rows;
  }

  #callIndex(transcript: Transcript): CallIndex {
    const { results } = this.#derive(transcript);
    const actions = new Map(transcript.actions.map((action) => [action.call.id, action]));
    return { results, live: transcript.live.calls, actions };
  }

  #build(transcript: Transcript): readonly Row[] {
    const { turns } = this.#derive(transcript);
    const calls = this.#callIndex(transcript);
    const cachedRows = new Map<number, Cached<Row | null>>();
    const rows: Row[] = [];
    let isAfterCheckpoint = false;
    for (const stored of transcript.messages) {
      const { kind } = stored.message;
      // The checkpoint says the same.
      const isRepetition = isAfterCheckpoint && kind === "note";
      isAfterCheckpoint = kind === "checkpoint";
      if (isRepetition) continue;
      const turn = turns.get(stored.number) ?? null;
      const from = inputs(stored, turn, calls);
      const before = this.#cachedRows.get(stored.number);
      const one =
        before !== undefined && sameItems(before.from, from)
          ? before
          : { from, value: this.#rowOf(stored, turn, calls) };
      cachedRows.set(stored.number, one);
      if (one.value !== null) rows.push(one.value);
    }
    this.#cachedRows = cachedRows;
    return rows;
  }

  /** Results and turns, derived again only when the messages change. */
  #derive({ messages, chat }: Transcript): Derived {
    const isBusy = chat?.status === "running" || chat?.status === "interrupting";
    const from = [messages, isBusy];
    if (this.#derived !== null && sameItems(this.#derived.from, from)) return this.#derived.derived;
    const before = this.#derived?.derived ?? null;
    const derived = {
      results: resultsOf(messages, before?.results),
      turns: turnsOf(messages, isBusy, before?.turns),
    };
    this.#derived = { from, derived: derived };
    return derived;
  }

  #rowOf(stored: Stored, turn: Turn | null, calls: CallIndex): Row | null {
    const { message, number } = stored;
    const key = keyOf(number);
    // A summary is for the model, but shown to users too.
    if (message.visibility === "model" && message.kind !== "checkpoint") return null;
    switch (message.kind) {
      case "prompt":
        return { kind: "prompt", key, stored };
      case "answer": {
        const blocks = this.#blocksOf(message.parts, calls, false);
        return { kind: "answer", key, stored, blocks, turn, isCut: false };
      }
      case "checkpoint":
        return { kind: "checkpoint", key, stored };
      case "results": // shown with the calls that they are the results of
        return null;
      default:
        return { kind: "note", key, stored };
    }
  }

  #blocksOf(parts: Parts, calls: CallIndex, growing: boolean): readonly Block[] {
    return parts.flatMap((part, at) => {
      const block = this.#blockOf(part, parts, calls, growing && at === parts.length - 1);
      return block === null ? [] : [block];
    });
  }

  #blockOf(part: Part, parts: Parts, calls: CallIndex, growing: boolean): Block | null {
    const from = part.type === "call" ? [growing, ...inputsOfCall(part.id, calls)] : [growing];
    const before = this.#blocks.get(part);
    if (before !== undefined && sameItems(before.from, from)) return before.value;
    const built = this.#buildBlock(part, parts, calls, growing);
    this.#blocks.set(part, { from, value: built });
    return built;
  }

  #buildBlock(part: Part, parts: Parts, calls: CallIndex, growing: boolean): Block | null {
    switch (part.type) {
      case "text":
        return { type: "text", text: part.text, growing };
      case "reasoning":
        return { type: "reasoning", reasoning: part, growing };
      case "file":
        return { type: "file", file: part };
      case "source":
        return { type: "source", source: part };
      case "call":
        return callBlock(part, parts, calls, growing);
      default: // a result, which is shown with its call
        return null;
    }
  }
}

/** Facts derived from all messages. */
interface Derived {
  readonly results: ReadonlyMap<string, StoredResult>;
  readonly turns: ReadonlyMap<number, Turn>;
}

/** Results, live output and pending actions by call id. */
interface CallIndex {
  readonly results: ReadonlyMap<string, StoredResult>;
  readonly live: ReadonlyMap<string, LiveCall>;
  readonly actions: ReadonlyMap<string, Pending>;
}

/** Everything the row of a message depends on. */
function inputs(stored: Stored, turn: Turn | null, calls: CallIndex): readonly unknown[] {
  const from: unknown[] = [stored, turn];
  for (const part of stored.message.parts) {
    if (part.type !== "call") continue;
    from.push(...inputsOfCall(part.id, calls));
  }
  return from;
}

function inputsOfCall(id: string, calls: CallIndex): readonly unknown[] {
  return [calls.results.get(id), calls.live.get(id), calls.actions.get(id)];
}

/** Ids of calls that were changed or removed. */
function changedCalls(
  before: ReadonlyMap<string, LiveCall>,
  now: ReadonlyMap<string, LiveCall>,
): readonly string[] {
  const ids = new Set([...before.keys(), ...now.keys()]);
  return [...ids].filter((id) => before.get(id) !== now.get(id));
}

function rowsByCall(rows: readonly Row[]): Map<string, number[]> {
  const byCall = new Map<string, number[]>();
  for (const [at, row] of rows.entries()) {
    if (row.kind !== "answer") continue;
    for (const block of row.blocks) {
      if (block.type !== "call") continue;
      const rowIndexes = byCall.get(block.call.id);
      if (rowIndexes === undefined) byCall.set(block.call.id, [at]);
      else rowIndexes.push(at);
    }
  }
  return byCall;
}

/** The previous value if the new one has the same properties. */
function reuseIfEqual<T extends object>(before: T | undefined, now: T): T {
  if (before === undefined) return now;
  const names = Object.keys(now) as (keyof T)[];
  return names.every((name) => Object.is(before[name], now[name])) ? before : now;
}

function keyOf(number: number): string {
  return `m${number}`;
}

type Parts = readonly Part[];

function callBlock(call: ToolCall, parts: Parts, calls: CallIndex, growing: boolean): CallBlock {
  const stored = calls.results.get(call.id) ?? ownResult(parts, call.id);
  const live = calls.live.get(call.id) ?? null;
  const result = stored?.result ?? live?.result ?? null;
  return {
    type: "call",
    call,
    result,
    resultAt: stored?.at ?? null,
    live,
    action: calls.actions.get(call.id) ?? null,
    writing: growing,
    seconds: secondsOf(result) ?? live?.seconds ?? null,
  };
}

function secondsOf(result: ToolResult | null): number | null {
  if (result?.started_at == null || result.finished_at == null) return null;
  return (result.finished_at - result.started_at) / 1_000_000;
}

/** The result of a call that the provider ran: it is in the answer itself. */
function ownResult(parts: Parts, id: string): { result: ToolResult; at: null } | null {
  const result = parts.find((part) => part.type === "result" && part.call_id === id);
  return result?.type === "result" ? { result, at: null } : null;
}

function resultsOf(
  messages: readonly Stored[],
  before: ReadonlyMap<string, StoredResult> | undefined,
): ReadonlyMap<string, StoredResult> {
  const results = new Map<string, StoredResult>();
  for (const { message, created_at } of messages) {
    if (message.role !== "tool") continue;
    for (const part of message.parts) {
      if (part.type !== "result") continue;
      const now = { result: part, at: created_at };
      results.set(part.call_id, reuseIfEqual(before?.get(part.call_id), now));
    }
  }
  return results;
}

/** Finished turns, by the number of their last answer. */
function turnsOf(
  messages: readonly Stored[],
  isBusy: boolean,
  before: ReadonlyMap<number, Turn> | undefined,
): ReadonlyMap<number, Turn> {
  const turns = new Map<number, Turn>();
  let began: number | null = null;
  let answers: Stored[] = [];
  const close = () => {
    const last = answers.at(-1);
    if (began !== null && last !== undefined) {
      turns.set(last.number, reuseIfEqual(before?.get(last.number), turnOf(began, answers)));
    }
    answers = [];
  };
  for (const stored of messages) {
    if (stored.message.kind === "prompt") {
      // Prompts delivered together start one turn.
      if (answers.length > 0 || began === null) {
        close();
        began = stored.created_at;
      }
    } else if (stored.message.kind === "answer") answers.push(stored);
  }
  if (!isBusy) close();
  return turns;
}

function turnOf(began: number, answers: readonly Stored[]): Turn {
  let input = 0;
  let output = 0;
  let cost: number | null = 0;
  let model: number | null = 0;
  for (const { message } of answers) {
    // Interrupted calls are part of the model call before them.
    const isTimed = message.runtime != null || message.visibility !== "user";
    if (isTimed) model = model === null || message.runtime == null ? null : model + message.runtime;
    const usage = message.usage;
    if (usage == null) continue;
    input += (usage.input ?? 0) + (usage.cache_read ?? 0) + (usage.cache_write ?? 0);
    output += usage.output ?? 0;
    cost = cost === null || usage.cost == null ? null : cost + usage.cost;
  }
  const micros = (answers.at(-1)?.created_at ?? began) - began;
  // Messages only for users are no steps: interrupted calls, or a failed answer.
  const steps = answers.filter(({ message }) => message.visibility !== "user").length;
  return { steps, micros, model, input, output, cost };
}
