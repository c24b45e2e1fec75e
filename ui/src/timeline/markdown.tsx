/**
 * Markdown of a model or a person, rendered to elements and never to HTML: only the elements made
 * here can appear.
 *
 * While it grows, only its last block is drawn again.
 */

import type { Token, Tokens } from "marked";
import { type ComponentType, Fragment, memo, useRef } from "react";
import { sameItems } from "../reactive/same-items";
import { CodeBlock } from "./code-block";
import { Inline } from "./inline-markdown";
import { type Block, BlockSplitter } from "./markdown-blocks";
import { blockTokens } from "./markdown-lexer";
import "./markdown.css";
import { repairedMarkdown } from "./repair-markdown";
import { ScrollRegion } from "./scroller";

interface Props {
  readonly text: string;
  /** More text is coming. */
  readonly growing?: boolean;
}

export const Markdown = memo(function Markdown({ text, growing = false }: Props) {
  const splitter = useRef<BlockSplitter>(null);
  splitter.current ??= new BlockSplitter();
  const blocks = splitter.current.of(text);
  return <div className="markdown">{inParts(Stretch, STRETCH, { blocks, growing })}</div>;
});

/** Blocks that are laid out and painted together: of a long text, only what is in sight. */
const PART = 10;
/** Blocks that are one box for the browser while all of them are far away. */
const STRETCH = 10 * PART;

interface PartProps {
  readonly blocks: readonly Block[];
  readonly growing: boolean;
}

const Stretch = memo(function Stretch(props: PartProps) {
  return <div className="markdown-stretch">{inParts(Part, PART, props)}</div>;
}, sameBlocks);

const Part = memo(function Part({ blocks, growing }: PartProps) {
  return (
    <div className="markdown-part">
      {blocks.map((block, at) => (
        <BlockView key={String(at)} {...block} growing={growing && at === blocks.length - 1} />
      ))}
    </div>
  );
}, sameBlocks);

function inParts(View: ComponentType<PartProps>, size: number, { blocks, growing }: PartProps) {
  const last = Math.max(0, Math.ceil(blocks.length / size) - 1);
  // Blocks are added and removed only at the end.
  return Array.from({ length: last + 1 }, (_, at) => (
    <View
      key={String(at)}
      blocks={blocks.slice(at * size, (at + 1) * size)}
      growing={growing && at === last}
    />
  ));
}

function sameBlocks(one: PartProps, other: PartProps): boolean {
  return one.growing === other.growing && sameItems(one.blocks, other.blocks);
}

const BlockView = memo(function BlockView({ raw, start, growing }: Block & { growing: boolean }) {
  const tokens = blockTokens(growing ? repairedMarkdown(raw) : raw);
  return <Elements tokens={tokens} start={start} growing={growing} />;
});

interface ElementsProps {
  readonly tokens: readonly Token[];
  readonly start?: number | undefined;
  readonly growing: boolean;
}

function Elements({ tokens, start, growing }: ElementsProps) {
  return tokens.map((token, at) => (
    <Element
      // biome-ignore lint/suspicious/noArrayIndexKey: tokens have no names, and stay in their order
      key={at}
      token={token}
      start={start}
      growing={growing && at === tokens.length - 1}
    />
  ));
}

interface ElementProps {
  readonly token: Token;
  readonly start?: number | undefined;
  readonly growing: boolean;
}

function Element({ token, start, growing }: ElementProps) {
  switch (token.type) {
    case "space":
      return null;
    case "code":
      return <CodeBlock text={token.text} language={languageOf(token.lang)} growing={growing} />;
    case "heading":
      return <Heading depth={token.depth} text={token.text} />;
    case "hr":
      return <hr />;
    case "blockquote":
      return (
        <blockquote>
          <Elements tokens={token.tokens ?? []} growing={growing} />
        </blockquote>
      );
    case "list":
      return <List list={token as Tokens.List} start={start} growing={growing} />;
    case "table":
      return <Table table={token as Tokens.Table} />;
    case "text": // an item of a tight list
      return <Inline text={token.text} />;
    default:
      return (
        <p>
          <Inline text={"text" in token ? String(token.text) : token.raw} />
        </p>
      );
  }
}

function languageOf(info: unknown): string {
  return typeof info === "string" ? (/^[\w+#.-]+/.exec(info)?.[0] ?? "") : "";
}

/** Headings start at level 3: the page has its own above. */
function Heading({ depth, text }: { readonly depth: number; readonly text: string }) {
  const inner = <Inline text={text} />;
  if (depth === 1) return <h3>{inner}</h3>;
  if (depth === 2) return <h4>{inner}</h4>;
  return depth === 3 ? <h5>{inner}</h5> : <h6>{inner}</h6>;
}

interface ListProps {
  readonly list: Tokens.List;
  readonly start: number | undefined;
  readonly growing: boolean;
}

function List({ list, start, growing }: ListProps) {
  const last = list.items.length - 1;
  const items = list.items.map((item, at) => (
    // biome-ignore lint/suspicious/noArrayIndexKey: items have no names, and stay in their order
    <Item key={at} item={item} raw={item.raw} loose={item.loose} growing={growing && at === last} />
  ));
  const isTasks = list.items.some((item) => item.task);
  if (!list.ordered) return <ul data-tasks={isTasks || undefined}>{items}</ul>;
  return <ol start={start ?? (Number(list.start) || 0)}>{items}</ol>;
}

interface ItemProps {
  readonly item: Tokens.ListItem;
  readonly raw: string;
  readonly loose: boolean;
  readonly growing: boolean;
}

const Item = memo(
  function Item({ item, growing }: ItemProps) {
    const tokens = item.tokens.filter((token) => token.type !== "checkbox");
    return (
      <li data-task={item.task || undefined}>
        {item.task && (
          <input
            type="checkbox"
            checked={item.checked ?? false}
            disabled
            readOnly
            aria-label={item.checked ? "Done" : "Not done"}
          />
        )}
        <Elements tokens={item.task ? tokens.map(withoutBox) : tokens} growing={growing} />
      </li>
    );
  },
  // Tokens are new objects each time: compared by source.
  (one, other) =>
    one.raw === other.raw && one.loose === other.loose && one.growing === other.growing,
);

/** Removes the `[x]` of a task, which is drawn as a checkbox. */
function withoutBox(token: Token, at: number): Token {
  if (at > 0 || !("text" in token)) return token;
  return { ...token, text: String(token.text).replace(/^\[[ xX]\] +/, "") } as Token;
}

function Table({ table }: { readonly table: Tokens.Table }) {
  return (
    <ScrollRegion className="markdown-table" label="Table">
      <table>
        <thead>
          <TableRow cells={table.header} head />
        </thead>
        <tbody>
          {table.rows.map((cells, at) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: rows have no names
            <TableRow key={at} cells={cells} />
          ))}
        </tbody>
      </table>
    </ScrollRegion>
  );
}

interface TableRowProps {
  readonly cells: readonly Tokens.TableCell[];
  readonly head?: boolean;
}

const TableRow = memo(
  function TableRow({ cells, head }: TableRowProps) {
    const Cell = head ? "th" : "td";
    return (
      <tr>
        {cells.map((cell, at) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: cells have no names
          <Cell key={at} data-align={cell.align ?? undefined}>
            <CellText text={cell.text} />
          </Cell>
        ))}
      </tr>
    );
  },
  (one, other) =>
    one.cells.length === other.cells.length &&
    one.cells.every(({ text, align }, at) => {
      const cell = other.cells[at];
      return text === cell?.text && align === cell.align;
    }),
);

/** A table cell. `<br>` is the only HTML interpreted: cells have no other line break. */
function CellText({ text }: { readonly text: string }) {
  const lines = text.split(/<br ?\/?>/i);
  return lines.map((line, at) => (
    // biome-ignore lint/suspicious/noArrayIndexKey: lines have no names
    <Fragment key={at}>
      {at > 0 && <br />}
      <Inline text={line} />
    </Fragment>
  ));
}
