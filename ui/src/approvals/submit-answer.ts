/** Submits the answer to a pending action once, and handles answers given elsewhere. */

import { useEffect, useRef, useState } from "react";
import { IdempotencyKeys } from "../api/idempotency-key";
import { Problem } from "../api/problem";
import { call } from "../api/request";
import type { Answer, Pending } from "../api/types";
import { notify } from "../ui/notices";
import { isIntentionalClick, mayBeAnsweredElsewhere } from "./wording";

export type SubmitState =
  | { readonly is: "open" }
  | { readonly is: "sending" }
  /** `how`: the answer in a word, such as "Denied". */
  | { readonly is: "done"; readonly how: string }
  /** Answered elsewhere, or the turn is over. */
  | { readonly is: "over" }
  | { readonly is: "refused"; readonly why: string };

export interface AnswerSubmission {
  /** The current action: it may have changed since the card was rendered. */
  readonly action: Pending;
  readonly changed: boolean;
  readonly sending: SubmitState;
  readonly busy: boolean;
  send(answer: Answer, how: string): void;
}

/** Time at which a card of this page was last answered: the cards below it move up. */
let settledAt = Number.NEGATIVE_INFINITY;

export function isIntentional({ detail }: { readonly detail: number }): boolean {
  return isIntentionalClick(detail, performance.now(), settledAt);
}

export function useSubmitAnswer(
  chatId: string,
  original: Pending,
  onSettled?: () => void,
): AnswerSubmission {
  const [newer, setNewer] = useState<Pending | null>(null);
  const [sending, setSending] = useState<SubmitState>({ is: "open" });
  const isSending = useRef(false);
  const [keys] = useState(() => new IdempotencyKeys());
  const action = newer ?? original;
  const settle = (state: SubmitState) => {
    settledAt = performance.now();
    setSending(state);
    onSettled?.();
  };
  const send = async (answer: Answer, how: string) => {
    // React sets state later: two fast clicks would both see it open.
    if (isSending.current) return;
    isSending.current = true;
    setSending({ is: "sending" });
    try {
      await post(chatId, action, answer, keys);
      settle({ is: "done", how });
    } catch (error) {
      const problem = Problem.of(error);
      const current = mayBeAnsweredElsewhere(problem.kind)
        ? await readAction(chatId, action)
        : action;
      if (current === null) {
        // The card may already have been removed.
        notify("Already answered by someone else, or the turn is over.");
        settle({ is: "over" });
      } else setSending({ is: "refused", why: problem.message });
      if (current !== null && current.digest !== action.digest) setNewer(current);
    }
    isSending.current = false;
  };
  const busy = sending.is === "sending";
  return { action, changed: newer !== null, sending, busy, send: (a, h) => void send(a, h) };
}

/** Posts an answer. A retry of the same answer has the same key, and is not refused. */
async function post(
  chat: string,
  { call: { id } }: Pending,
  answer: Answer,
  keys: IdempotencyKeys,
): Promise<void> {
  await call("POST /chats/{chat}/actions/{id}", {
    path: { chat, id },
    body: { answer },
    key: keys.for(answer),
  });
}

/** The action as the server has it now; null if it is no longer pending. */
async function readAction(chat: string, action: Pending): Promise<Pending | null> {
  try {
    const { actions } = await call("GET /chats/{chat}/actions", { path: { chat } });
    return actions.find((each) => each.call.id === action.call.id) ?? null;
  } catch {
    return action; // unknown: keep the card
  }
}

/** Focuses an element when it is mounted. */
export function useFocusOnMount<T extends HTMLElement>(isWanted = true): React.RefObject<T | null> {
  const element = useRef<T>(null);
  // biome-ignore lint/correctness/useExhaustiveDependencies: only when it appears
  useEffect(() => {
    if (isWanted) element.current?.focus();
  }, []);
  return element;
}
