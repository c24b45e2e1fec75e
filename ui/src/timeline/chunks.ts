/**
 * Rows of the timeline in chunks. An unchanged chunk is the same object: it is neither rendered
 * again nor laid out while it is out of sight. Pure but for its memory.
 */

import { sameItems } from "../reactive/same-items";
import type { Row } from "../store/rows";
import { isGroupedRead } from "./answer-items";

export interface Chunk {
  readonly key: string;
  /** Number of the group. */
  readonly group: number;
  readonly rows: readonly Row[];
  /** Model of the last answer before this chunk. */
  readonly modelBefore: string | null;
}

type Answer = Extract<Row, { kind: "answer" }>;

/** Message numbers per group. Loading earlier messages moves no row to another group. */
const SIZE = 40;
/** Chunks that are one box for the browser while all of them are far away. */
const FAR = 10;

export function numberOf(row: Row): number {
  return Number(row.key.slice(1));
}

function groupOf(row: Row): number {
  return Math.floor(numberOf(row) / SIZE);
}

interface CachedChunk {
  readonly from: readonly Row[];
  readonly chunk: Chunk;
}

export class Chunks {
  #committed: readonly Row[] | null = null;
  #cached: ReadonlyMap<number, CachedChunk> = new Map();
  #chunks: readonly Chunk[] = [];
  readonly #merged = new WeakMap<Row, { from: readonly Answer[]; row: Answer }>();

  of(committed: readonly Row[], growing: Row | null): readonly Chunk[] {
    if (committed !== this.#committed) this.#update(committed);
    if (growing === null) return this.#chunks;
    const group = groupOf(growing);
    const cached = this.#cached.get(group);
    const last = this.#chunks.at(-1);
    const modelBefore = cached?.chunk.modelBefore ?? modelOf(committed.at(-1)) ?? null;
    const rows = this.#mergeReads([...(cached?.from ?? []), growing]);
    const chunk = { key: `g${group}`, group, rows, modelBefore };
    return last?.key === chunk.key
      ? [...this.#chunks.slice(0, -1), chunk]
      : [...this.#chunks, chunk];
  }

  #update(committed: readonly Row[]): void {
    const cached = this.#patched(committed) ?? this.#rebuilt(committed);
    this.#committed = committed;
    this.#cached = cached;
    this.#chunks = [...cached.values()].map(({ chunk }) => chunk);
  }

  /** Chunks with changed rows replaced; null if rows were added, removed or moved. */
  #patched(committed: readonly Row[]): ReadonlyMap<number, CachedChunk> | null {
    const changes = changesIn(this.#committed, committed);
    if (changes === null) return null;
    const all = new Map(this.#cached);
    for (const [before, now] of changes) {
      const group = groupOf(now);
      const cached = all.get(group);
      if (cached === undefined) return null;
      const from = cached.from.map((row) => (row === before ? now : row));
      all.set(group, this.#build(group, from, cached.chunk.modelBefore));
    }
    return all;
  }

  #rebuilt(committed: readonly Row[]): ReadonlyMap<number, CachedChunk> {
    const rebuilt = new Map<number, CachedChunk>();
    let modelBefore: string | null = null;
    for (const [group, from] of grouped(committed, groupOf)) {
      const before = this.#cached.get(group);
      const isSame = before?.chunk.modelBefore === modelBefore && sameItems(before.from, from);
      rebuilt.set(group, isSame ? before : this.#build(group, from, modelBefore));
      for (const row of from) modelBefore = modelOf(row) ?? modelBefore;
    }
    return rebuilt;
  }

  #build(group: number, from: readonly Row[], modelBefore: string | null): CachedChunk {
    const rows = this.#mergeReads(from);
    return { from, chunk: { key: `g${group}`, group, rows, modelBefore } };
  }

  /** Merges consecutive answers that only read into one row. */
  #mergeReads(from: readonly Row[]): readonly Row[] {
    const rows: Row[] = [];
    let run: Answer[] = [];
    const close = () => {
      if (run.length > 0) rows.push(this.#mergedOf(run));
      run = [];
    };
    for (const row of from) {
      if (onlyReads(row)) run.push(row);
      else {
        close();
        rows.push(row);
      }
    }
    close();
    return rows;
  }

  /** The merged row. It has the key of the first answer, so that its elements stay. */
  #mergedOf(run: readonly Answer[]): Answer {
    const first = run[0] as Answer;
    const last = run.at(-1) as Answer;
    if (first === last) return first;
    const before = this.#merged.get(first);
    if (before !== undefined && sameItems(before.from, run)) return before.row;
    const blocks = run.flatMap((row) => row.blocks);
    const row = { ...last, key: first.key, blocks };
    this.#merged.set(first, { from: run, row });
    return row;
  }
}

/** Rows whose content changed; null if any were added, removed or moved. */
function changesIn(
  before: readonly Row[] | null,
  now: readonly Row[],
): readonly (readonly [Row, Row])[] | null {
  if (before?.length !== now.length) return null;
  const changes: (readonly [Row, Row])[] = [];
  for (const [at, row] of now.entries()) {
    const old = before[at] as Row;
    if (old === row) continue;
    if (old.key !== row.key || modelOf(old) !== modelOf(row)) return null;
    changes.push([old, row]);
  }
  return changes;
}

function onlyReads(row: Row): row is Answer {
  return row.kind === "answer" && row.blocks.length > 0 && row.blocks.every(isGroupedRead);
}

export function modelOf(row: Row | undefined): string | null {
  return row?.kind === "answer" ? (row.stored?.message.model ?? null) : null;
}

/** Chunks grouped into stretches, in order. */
export function stretches(chunks: readonly Chunk[]): Map<number, Chunk[]> {
  return grouped(chunks, ({ group }) => Math.floor(group / FAR));
}

function grouped<T>(all: readonly T[], groupOf: (one: T) => number): Map<number, T[]> {
  const groups = new Map<number, T[]>();
  for (const one of all) {
    const group = groupOf(one);
    const existing = groups.get(group);
    if (existing === undefined) groups.set(group, [one]);
    else existing.push(one);
  }
  return groups;
}

/** Rows after the last one that was seen. */
export function countUnseen(rows: readonly Row[], seen: number): number {
  let count = 0;
  for (let at = rows.length - 1; at >= 0 && numberOf(rows[at] as Row) > seen; at -= 1) count += 1;
  return count;
}
