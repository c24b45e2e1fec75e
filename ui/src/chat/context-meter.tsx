/** The context meter: a ring, and a popover with tokens, cost and compaction. */

import { useEffect, useState } from "react";
import type { Spent } from "../api/types";
import { useStore } from "../reactive/store";
import { catalogStore } from "../store/catalog";
import type { OpenChat } from "../store/open-chat";
import { Button } from "../ui/button";
import { useFloating } from "../ui/floating";
import { cost, count } from "../ui/format";
import { attempt } from "../ui/notices";
import { Popover } from "../ui/popover";
import { type BudgetLine, budgetLines } from "./budget";
import {
  type ContextUsage,
  contextUsageOf,
  costWords,
  percent,
  tokensIn,
  unpricedWords,
  usesMore,
} from "./context-usage";
import "./meter.css";

interface Props {
  readonly chat: OpenChat;
  readonly readOnly?: boolean;
}

export function ContextMeter({ chat, readOnly }: Props) {
  const fill = useContextUsage(chat);
  const { button, isOpen, toggle, close } = useFloating();
  const spent = useSpent(chat, isOpen);
  const words = fill === null ? "unknown yet" : usedWords(fill);
  const paid = spent?.own.usage.cost ?? 0;
  const label = `Context: ${words}${paid > 0 ? `. Cost: ${cost(paid)}` : ""}`;
  return (
    <>
      <button
        ref={button}
        type="button"
        className="button meter"
        data-look="plain"
        aria-haspopup="dialog"
        aria-expanded={isOpen}
        aria-label={label}
        title={label}
        onClick={toggle}
      >
        <Ring fill={fill} />
        {paid > 0 && <span className="meter-cost">{cost(paid)}</span>}
      </button>
      {isOpen && button.current !== null && (
        <Popover at={button.current} label="Context and usage" onClose={close}>
          <div className="meter-more">
            <ContextSection fill={fill} />
            {!readOnly && <CompactButton chat={chat} onDone={close} />}
            <UsageSection spent={spent} />
            <BudgetSection chat={chat} />
          </div>
        </Popover>
      )}
    </>
  );
}

function useContextUsage(chat: OpenChat): ContextUsage | null {
  const now = useStore(chat.transcript, (transcript) => transcript.chat);
  const current = useStore(catalogStore);
  if (now === null) return null;
  const agent = current?.agents.find(({ name }) => name === now.agent);
  const name = now.model ?? agent?.model;
  const model = current?.models.find((each) => each.name === name);
  return contextUsageOf(now.context, agent, model);
}

interface BothSpent {
  readonly own: Spent;
  readonly tree: Spent;
}

/** Fetched when a turn ends; while the popover is open, with every message. */
function useSpent(chat: OpenChat, isLookedAt: boolean): BothSpent | null {
  const [spent, setSpent] = useState<BothSpent | null>(null);
  const moment = useStore(chat.transcript, ({ chat: now }) => {
    if (now === null || now.messages === 0) return null;
    const isBusy = now.status === "running" || now.status === "interrupting";
    return isBusy && !isLookedAt ? "busy" : String(now.history_version);
  });
  useEffect(() => {
    if (moment === null || moment === "busy") return;
    let isLate = false;
    Promise.all([chat.usage(false), chat.usage(true)])
      .then(([own, tree]) => isLate || setSpent({ own, tree }))
      .catch(() => {}); // the previous numbers stay
    return () => {
      isLate = true;
    };
  }, [chat, moment]);
  return spent;
}

function usedWords({ used, window, share }: ContextUsage): string {
  if (window === null || share === null) return `${count(used)} tokens, context window unknown`;
  return `${percent(share)} of ${count(window)} tokens`;
}

const RADIUS = 7;
const AROUND = 2 * Math.PI * RADIUS;

function Ring({ fill }: { readonly fill: ContextUsage | null }) {
  const share = fill?.share ?? 0;
  const mark = fill?.thresholdShare ?? null;
  return (
    <svg
      className="meter-ring"
      data-level={fill?.level ?? "unknown"}
      viewBox="0 0 20 20"
      width="20"
      height="20"
      aria-hidden="true"
    >
      <circle cx="10" cy="10" r={RADIUS} className="meter-track" />
      <circle
        cx="10"
        cy="10"
        r={RADIUS}
        className="meter-fill"
        strokeDasharray={`${share * AROUND} ${AROUND}`}
        transform="rotate(-90 10 10)"
      />
      {mark !== null && (
        <line
          x1="10"
          y1="1.5"
          x2="10"
          y2="4.5"
          className="meter-mark"
          transform={`rotate(${mark * 360} 10 10)`}
        />
      )}
    </svg>
  );
}

function ContextSection({ fill }: { readonly fill: ContextUsage | null }) {
  if (fill === null) {
    return (
      <section>
        <h2>Context</h2>
        <p>Unknown until the model's next answer.</p>
      </section>
    );
  }
  const { used, window, threshold, share, thresholdShare } = fill;
  return (
    <section>
      <h2>Context</h2>
      {share !== null && (
        <div className="meter-bar" data-level={fill.level} aria-hidden="true">
          <span style={{ width: `${share * 100}%` }} />
          {thresholdShare !== null && <i style={{ left: `${thresholdShare * 100}%` }} />}
        </div>
      )}
      <dl className="meter-numbers">
        <Figure
          name="Used"
          value={`${count(used)}${share === null ? "" : ` (${percent(share)})`}`}
        />
        <Figure name="Context window" value={window === null ? "unknown" : count(window)} />
        <Figure name="Summarized at" value={threshold === null ? "never" : count(threshold)} />
      </dl>
    </section>
  );
}

function Figure({ name, value }: { readonly name: string; readonly value: string }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </div>
  );
}

function CompactButton({ chat, onDone }: { readonly chat: OpenChat; readonly onDone: () => void }) {
  const [busy, setBusy] = useState(false);
  const compact = async () => {
    setBusy(true);
    await attempt(() => chat.compact());
    setBusy(false);
    onDone();
  };
  return (
    <div className="meter-compact">
      <Button busy={busy} onClick={() => void compact()}>
        Compact now
      </Button>
      <small>
        The model gets a summary instead of the conversation so far. You still see everything.
      </small>
    </div>
  );
}

function UsageSection({ spent }: { readonly spent: BothSpent | null }) {
  return (
    <section>
      <h2>Usage</h2>
      {spent === null ? (
        <p>No model calls yet.</p>
      ) : (
        <>
          <UsageFigures name="This chat" spent={spent.own} />
          {usesMore(spent.tree, spent.own) && (
            <UsageFigures name="Including its subagents" spent={spent.tree} />
          )}
        </>
      )}
    </section>
  );
}

/** Shown if a budget is set, and fetched with the usage. */
function BudgetSection({ chat }: { readonly chat: OpenChat }) {
  const [lines, setLines] = useState<readonly BudgetLine[]>([]);
  const moment = useStore(chat.transcript, ({ chat: now }) => now?.history_version);
  useEffect(() => {
    if (moment === undefined) return;
    let isLate = false;
    chat
      .budget()
      .then((report) => isLate || setLines(budgetLines(report)))
      .catch(() => {}); // the previous numbers stay
    return () => {
      isLate = true;
    };
  }, [chat, moment]);
  if (lines.length === 0) return null;
  return (
    <section>
      <h2>Left of the budget</h2>
      {lines.map(({ name, left, share, level }) => (
        <div key={name}>
          <dl className="meter-numbers">
            <Figure name={name} value={left} />
          </dl>
          <div className="meter-bar" data-level={level} aria-hidden="true">
            <span style={{ width: `${share * 100}%` }} />
          </div>
        </div>
      ))}
    </section>
  );
}

function UsageFigures({ name, spent }: { readonly name: string; readonly spent: Spent }) {
  const { usage, calls } = spent;
  const plain = unpricedWords(spent);
  const cached = usage.cache_read ?? 0;
  return (
    <>
      <h3>{name}</h3>
      <dl className="meter-numbers">
        <Figure name="Cost" value={costWords(spent)} />
        <Figure name="Input tokens" value={count(tokensIn(spent))} />
        {cached > 0 && <Figure name="of which from cache" value={count(cached)} />}
        <Figure name="Output tokens" value={count(usage.output ?? 0)} />
        <Figure name="Model calls" value={String(calls)} />
      </dl>
      {plain !== null && <p>{plain}</p>}
    </>
  );
}
