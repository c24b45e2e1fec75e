/** The queue: messages that are not delivered yet, with edit, move, send now and remove. */

import {
  ArrowDown,
  ArrowUp,
  GripVertical,
  Paperclip,
  Pencil,
  SendHorizontal,
  X,
} from "lucide-react";
import { type RefObject, useLayoutEffect, useRef } from "react";
import type { Effort, Queued } from "../api/types";
import { useIsReadOnly } from "../approvals/read-only";
import { useStore } from "../reactive/store";
import { chatOnScreen, type OpenChat } from "../store/open-chat";
import { IconButton } from "../ui/button";
import { useFocusFallback } from "../ui/focus";
import { attempt, notify } from "../ui/notices";
import "./composer.css";
import { DELIVERY_LABELS, hasChoice, isBusy } from "./delivery";
import { draftNamed, draftOf } from "./draft";
import { contentOf, countFiles, oneLineOf, promptOf } from "./draft-content";
import { range } from "./queue-order";
import { useDrag, useQueue } from "./use-queue";

interface Props {
  readonly chat: OpenChat;
}

export function Queue({ chat }: Props) {
  const state = useQueue(chat);
  const { list, dragged, grip } = useDrag(state);
  const editing = useStore(chat.editing);
  const keepFocus = useFocusAfterMove(list, state.queue);
  const isReadOnly = useIsReadOnly(chat.id);
  const { queue } = state;
  if (queue.length === 0) return null;
  return (
    <section className="queue" aria-label="Queue">
      <ol ref={list} className="queue-list">
        {queue.map((queued, at) => (
          <QueueRow
            key={queued.id}
            queued={queued}
            edited={editing?.is === "queued" && editing.queued.id === queued.id}
            dragged={dragged === queued.id}
            grip={grip(queued.id)}
            places={isReadOnly ? [at, at, at] : [at, ...range(queue, queued.id)]}
            isReadOnly={isReadOnly}
            onMove={(to, focus) => {
              keepFocus(queued.id, focus);
              state.move(queued.id, to);
            }}
            onEdit={() => chat.editing.set({ is: "queued", queued })}
            onRemove={async () => {
              if (await state.remove(queued.id)) offerUndo(chat, queued);
            }}
            onSendNow={() => attempt(() => chat.promote(queued.id))}
          />
        ))}
      </ol>
    </section>
  );
}

interface RowProps {
  readonly queued: Queued;
  readonly edited: boolean;
  readonly dragged: boolean;
  readonly grip: object;
  /** Where it is, and the first and the last place that it may have. */
  readonly places: readonly number[];
  readonly isReadOnly: boolean;
  readonly onMove: (to: number, focus: "up" | "down") => void;
  readonly onEdit: () => void;
  readonly onRemove: () => void;
  readonly onSendNow: () => void;
}

function QueueRow({
  queued,
  edited,
  dragged,
  grip,
  places,
  isReadOnly,
  onMove,
  ...acts
}: RowProps) {
  const [at = 0, first = 0, last = 0] = places;
  const line = oneLineOf(queued.message);
  const name = line === "" ? "files" : line.slice(0, 40);
  const files = countFiles(queued.message);
  const row = useRef<HTMLLIElement>(null);
  useFocusFallback(row, lastButtonBeside);
  return (
    <li ref={row} className="queue-row" data-id={queued.id} data-dragged={dragged || undefined}>
      <span
        className="queue-grip"
        aria-hidden="true"
        data-still={first === last || undefined}
        {...grip}
      >
        <GripVertical size={14} />
      </span>
      <span className="queue-text">{line === "" ? "Files only" : line}</span>
      {files > 0 && (
        <span className="queue-files">
          <Paperclip size={12} aria-hidden="true" />
          {files}
          <span className="hidden-text"> {files === 1 ? "file" : "files"}</span>
        </span>
      )}
      <span className="queue-when" data-deliver={queued.deliver}>
        {edited ? "being edited" : DELIVERY_LABELS[queued.deliver]}
      </span>
      {!isReadOnly && (
        <span className="queue-acts">
          {first < last && (
            <>
              <Move name={name} up disabled={at === first} onMove={() => onMove(at - 1, "up")} />
              <Move name={name} disabled={at === last} onMove={() => onMove(at + 1, "down")} />
            </>
          )}
          <IconButton small label={`Edit: ${name}`} onClick={acts.onEdit}>
            <Pencil size={14} />
          </IconButton>
          <IconButton
            small
            label={`Interrupt the turn and send now: ${name}`}
            onClick={acts.onSendNow}
          >
            <SendHorizontal size={14} />
          </IconButton>
          <IconButton small label={`Remove: ${name}`} onClick={acts.onRemove}>
            <X size={14} />
          </IconButton>
        </span>
      )}
    </li>
  );
}

function lastButtonBeside(row: HTMLElement): HTMLElement | null | undefined {
  const beside = row.nextElementSibling ?? row.previousElementSibling;
  return beside?.querySelector<HTMLElement>(".queue-acts > :last-child");
}

interface MoveProps {
  readonly name: string;
  readonly up?: boolean;
  readonly disabled: boolean;
  readonly onMove: () => void;
}

/** Disabled by aria only at the ends of the list, so that it keeps the focus. */
function Move({ name, up, disabled, onMove }: MoveProps) {
  const Icon = up ? ArrowUp : ArrowDown;
  return (
    <IconButton
      small
      label={`Move ${up ? "up" : "down"}: ${name}`}
      data-move={up ? "up" : "down"}
      aria-disabled={disabled || undefined}
      onClick={() => !disabled && onMove()}
    >
      <Icon size={14} />
    </IconButton>
  );
}

/** Keeps the focus on a row's button when the row is moved. */
function useFocusAfterMove(list: RefObject<HTMLOListElement | null>, queue: readonly Queued[]) {
  const focusAfterMove = useRef<string | null>(null);
  // biome-ignore lint/correctness/useExhaustiveDependencies: whenever the order changes
  useLayoutEffect(() => {
    if (focusAfterMove.current === null) return;
    list.current?.querySelector<HTMLElement>(focusAfterMove.current)?.focus();
    focusAfterMove.current = null;
  }, [queue, list]);
  return (id: string, which: "up" | "down") => {
    focusAfterMove.current = `[data-id="${CSS.escape(id)}"] [data-move="${which}"]`;
  };
}

/** Undo: back into the queue, or into the composer if the turn is over, so that nothing is sent. */
function offerUndo({ id }: OpenChat, { message, deliver, model, effort }: Queued): void {
  const content = contentOf(message);
  const prompt = promptOf(content);
  if (prompt === null) return;
  const onChoose = () => {
    const now = chatOnScreen(id);
    if (now === null) return draftNamed(id).prepend(content);
    const status = now.transcript.get().chat?.status ?? null;
    if (!hasChoice(status)) return draftOf(now).prepend(content);
    now.send(prompt, deliver === "steer" && isBusy(status) ? "steer" : "queue", {
      ...(model ? { model } : {}),
      ...(effort ? { effort: effort as Effort } : {}),
    });
  };
  notify("Removed from the queue.", false, { name: "Undo", onChoose });
}
