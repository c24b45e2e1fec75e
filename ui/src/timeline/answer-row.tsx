/** An answer of the model: text, reasoning, calls and sources. */

import { memo } from "react";
import { sameItems } from "../reactive/same-items";
import type { OpenChat } from "../store/open-chat";
import type { Row, Turn } from "../store/rows";
import { cost, count, duration } from "../ui/format";
import { type Item, itemsOf } from "./answer-items";
import { Attachments } from "./attachments";
import { CallRow, ReadGroup } from "./calls/call-row";
import { CopyButton } from "./copy-button";
import { Icon } from "./icon";
import { SafeLink } from "./inline-markdown";
import { Markdown } from "./markdown";
import { ReasoningView } from "./reasoning";
import { Timestamp } from "./timestamp";

type Answer = Extract<Row, { kind: "answer" }>;

interface Props {
  readonly chat: OpenChat;
  readonly row: Answer;
  /** The model of the previous answer, to show a change. */
  readonly modelBefore: string | null;
}

export const AnswerRow = memo(function AnswerRow({ chat, row, modelBefore }: Props) {
  const { blocks, stored, turn, isCut } = row;
  const finish = stored?.message.finish;
  return (
    <div className="answer">
      {itemsOf(blocks).map((item) => (
        <ItemView key={item.key} chatId={chat.id} item={item} />
      ))}
      {isCut && <p className="answer-cut">Cut off by a restart. The model is asked again.</p>}
      {finish === "length" && (
        <p className="answer-cut">The answer was cut off: it reached the length limit.</p>
      )}
      {finish === "content_filter" && (
        <p className="answer-cut">The provider withheld this answer.</p>
      )}
      {turn !== null && stored !== null && (
        <AnswerFoot row={row} turn={turn} at={stored.created_at} modelBefore={modelBefore} />
      )}
    </div>
  );
});

interface ItemProps {
  readonly chatId: string;
  readonly item: Item;
}

const ItemView = memo(
  function ItemView({ chatId, item }: ItemProps) {
    switch (item.is) {
      case "text":
        return <Markdown text={item.block.text} growing={item.block.growing} />;
      case "reasoning":
        return <ReasoningView reasoning={item.block.reasoning} growing={item.block.growing} />;
      case "call":
        return <CallRow chatId={chatId} block={item.block} />;
      case "reads":
        return <ReadGroup chatId={chatId} blocks={item.blocks} />;
      case "files":
        return <Attachments chatId={chatId} files={item.files} />;
      case "sources":
        return <Sources item={item} />;
    }
  },
  (one, other) => one.chatId === other.chatId && sameItem(one.item, other.item),
);

/** Whether two items are made from the same blocks. */
function sameItem(one: Item, other: Item): boolean {
  return one.is === other.is && sameItems(one.from, other.from);
}

function Sources({ item }: { readonly item: Extract<Item, { is: "sources" }> }) {
  return (
    <ul className="sources" aria-label="Sources">
      {item.sources.map(({ url, title }) => (
        <li key={url}>
          <SafeLink href={url}>
            <Icon name="link-2" size={12} />
            <span>{title || hostOf(url)}</span>
          </SafeLink>
        </li>
      ))}
    </ul>
  );
}

function hostOf(url: string): string {
  try {
    return new URL(url).host || url;
  } catch {
    return url;
  }
}

interface FootProps {
  readonly row: Answer;
  readonly turn: Turn;
  readonly at: number;
  readonly modelBefore: string | null;
}

function durationTitle({ model }: Turn): string {
  const whole = "Time from the message to the end of the answer";
  return model === null ? whole : `${whole}; model calls took ${duration(model / 1_000)}`;
}

/** The foot of a turn. As high as the status line that it replaces: see status.tsx. */
function AnswerFoot({ row, turn, at, modelBefore }: FootProps) {
  const model = row.stored?.message.model ?? null;
  const texts = row.blocks.flatMap((block) => (block.type === "text" ? [block.text] : []));
  const tokens = turn.input + turn.output;
  return (
    <div className="answer-foot">
      {texts.length > 0 && <CopyButton label="Copy the answer" text={() => texts.join("\n\n")} />}
      <Timestamp at={at} />
      {row.stored?.message.finish === "interrupted" && <span>interrupted</span>}
      <span title={durationTitle(turn)}>{duration(turn.micros / 1e6)}</span>
      {turn.steps > 1 && <span>{turn.steps} steps</span>}
      {tokens > 0 && (
        <span title={`${count(turn.input)} input tokens, ${count(turn.output)} output tokens`}>
          {count(tokens)} tokens
        </span>
      )}
      {turn.cost !== null && turn.cost > 0 && <span>{cost(turn.cost)}</span>}
      {model !== null && model !== modelBefore && <span className="answer-model">{model}</span>}
    </div>
  );
}
