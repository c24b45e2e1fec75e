/** A tool call, and a group of calls that only read. */

import { memo, type ReactNode, useRef } from "react";
import type { Pending } from "../../api/types";
import { ActionCard } from "../../approvals/action-card";
import type { CallBlock } from "../../store/rows";
import { useFocusFallback } from "../../ui/focus";
import { Counts } from "../diff";
import { Icon } from "../icon";
import { parsedPatches } from "../parse-diff";
import { CallBody } from "./call-bodies";
import "./calls.css";
import { changeOf } from "./call-diff";
import { labelOf, readsLabel } from "./call-label";
import { CallLine } from "./call-line";
import { isBad, isOver, type State, stateOf } from "./call-state";
import { commandResult, textOf } from "./parse-results";
import { type Values, valuesOf } from "./partial-json";

const ICONS: Readonly<Record<string, ReactNode>> = {
  execute: <Icon name="square-terminal" size={15} />,
  read_file: <Icon name="file-text" size={15} />,
  list_files: <Icon name="folder-tree" size={15} />,
  search_files: <Icon name="search" size={15} />,
  write_file: <Icon name="file-plus" size={15} />,
  edit_file: <Icon name="file-pen" size={15} />,
  ask_user: <Icon name="message-circle-question-mark" size={15} />,
  spawn_agent: <Icon name="user-round" size={15} />,
  message_agent: <Icon name="user-round" size={15} />,
  interrupt_agent: <Icon name="user-round" size={15} />,
  list_agents: <Icon name="user-round" size={15} />,
  wait_agents: <Icon name="user-round" size={15} />,
};

const OTHER = <Icon name="wrench" size={15} />;

interface Props {
  readonly chatId: string;
  readonly block: CallBlock;
}

export const CallRow = memo(function CallRow({ chatId, block }: Props) {
  const { call, action, live } = block;
  const values = valuesOf(action?.arguments ?? call.arguments);
  const state = stateOf(block);
  const waits = state === "waiting" && action !== null;
  return (
    <CallLine
      icon={Object.hasOwn(ICONS, call.tool) ? ICONS[call.tool] : OTHER}
      label={labelOf(call.tool, values, state, live?.label ?? "")}
      state={state}
      since={live?.since ?? null}
      seconds={isOver(state) ? secondsOf(block) : null}
      aside={<Aside block={block} values={values} state={state} />}
      failure={state === "done" ? failureOf(block) : null}
      tool={call.tool}
      quiet={call.provider_executed ?? false}
      opens={opensByDefault(block, values, state)}
      stays={waits}
    >
      {() =>
        waits ? (
          <PendingCard chatId={chatId} action={action} />
        ) : (
          <CallBody chatId={chatId} block={block} values={values} />
        )
      }
    </CallLine>
  );
});

interface PendingCardProps {
  readonly chatId: string;
  readonly action: Pending;
}

function PendingCard({ chatId, action }: PendingCardProps) {
  const place = useRef<HTMLDivElement>(null);
  useFocusFallback(place, (removed) => removed.closest(".call")?.querySelector(".call-line"));
  return (
    <div ref={place}>
      <ActionCard chatId={chatId} action={action} />
    </div>
  );
}

/** Duration of a call: for a command, the one it reports; none for calls that wait for a person. */
function secondsOf({ call, result, seconds }: CallBlock): number | null {
  if (call.tool === "ask_user" || result?.outcome === "refused") return null;
  const took =
    call.tool === "execute" ? (commandResult(textOf(result)).seconds ?? seconds) : seconds;
  return took === null || took < 0.1 ? null : took;
}

/** How a command failed, from its exit code; null if it succeeded or did not run. */
function failureOf({ call, result }: CallBlock): string | null {
  if (call.tool !== "execute") return null;
  const { code, notes } = commandResult(textOf(result));
  if (code !== null) return code === 0 ? null : `exit code ${code}`;
  return notes.find((note) => note.startsWith("killed")) ?? null;
}

/** A diff with more lines than this starts closed. */
const SHORT = 24;

function opensByDefault(block: CallBlock, values: Values, state: State): boolean {
  switch (block.call.tool) {
    case "execute":
      return state === "running" || isBad(state);
    case "ask_user":
      return isOver(state);
    case "edit_file":
    case "write_file": {
      if (state !== "done") return isBad(state);
      const change = changeOf(block, values);
      return change.is === "patch" && change.text.split("\n", SHORT + 1).length <= SHORT;
    }
    default:
      return isBad(state);
  }
}

interface AsideProps {
  readonly block: CallBlock;
  readonly values: Values;
  readonly state: State;
}

function Aside({ block, values, state }: AsideProps) {
  const { tool } = block.call;
  if (state === "done" && (tool === "edit_file" || tool === "write_file")) {
    const change = changeOf(block, values);
    const [patch] = change.is === "patch" ? parsedPatches(change.text) : [];
    return patch === undefined ? null : <Counts patch={patch} />;
  }
  return null;
}

interface ReadGroupProps {
  readonly chatId: string;
  readonly blocks: readonly CallBlock[];
}

/** A group of calls that only read, on one line: nothing moves when another call joins. */
export function ReadGroup({ chatId, blocks }: ReadGroupProps) {
  const last = blocks.at(-1);
  if (last === undefined) return null;
  const calls = blocks.map(({ call }) => ({ tool: call.tool, values: valuesOf(call.arguments) }));
  const states = blocks.map(stateOf);
  const state = states.find((each) => !isOver(each)) ?? "done";
  const failed = states.filter(isBad).length;
  const now = state === "done" ? undefined : calls[states.indexOf(state)];
  const label = now
    ? labelOf(now.tool, now.values, state, "")
    : { verb: readsLabel(calls), object: "", isCode: false };
  return (
    <CallLine
      icon={<Icon name="file-text" size={15} />}
      label={label}
      state={state}
      since={last.live?.since ?? null}
      aside={<ReadGroupAside count={blocks.length} failed={failed} isDone={state === "done"} />}
      tool="reads"
      opens={false}
    >
      {() => blocks.map((block) => <CallRow key={block.call.id} chatId={chatId} block={block} />)}
    </CallLine>
  );
}

interface ReadGroupAsideProps {
  readonly count: number;
  readonly failed: number;
  readonly isDone: boolean;
}

function ReadGroupAside({ count, failed, isDone }: ReadGroupAsideProps) {
  return (
    <span className="call-code">
      {!isDone && `${count} calls`}
      {failed > 0 && ` ${failed} failed`}
    </span>
  );
}
