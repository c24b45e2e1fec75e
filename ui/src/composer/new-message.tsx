/** The composer for a new message. */

import { type KeyboardEvent, useCallback, useEffect, useRef, useState } from "react";
import type { Deliver, Status } from "../api/types";
import { useStore } from "../reactive/store";
import type { OpenChat } from "../store/open-chat";
import { statusOf } from "../store/transcript";
import { isCoarse } from "../ui/media-query";
import { attempt, notify } from "../ui/notices";
import { CommandHelp } from "./command-help";
import { ComposerBox } from "./composer-box";
import { deliveryOf, hasChoice, isBusy, placeholder, waitingHint } from "./delivery";
import { type Draft, draftOf } from "./draft";
import { isEmpty, promptOf, sendBlocker } from "./draft-content";
import { SendButton, StopButton } from "./send-button";
import { commandStatusOf } from "./slash-commands";
import { SlashMenu } from "./slash-menu";
import { useEscape } from "./use-escape";
import { useInputHistory } from "./use-input-history";
import { useSlashMenu } from "./use-slash-menu";

export function NewMessage({ chat }: { readonly chat: OpenChat }) {
  const draft = draftOf(chat);
  const field = useRef<HTMLTextAreaElement>(null);
  const status = useStore(chat.transcript, statusOf);
  const empty = useStore(draft.content, isEmpty);
  const { armed, send } = useSend(draft, (deliver) => {
    const prompt = promptOf(draft.content.get());
    if (prompt === null) return;
    chat.send(prompt, hasChoice(status) ? deliver : "queue");
    draft.clear();
    field.current?.focus();
  });
  const commandStatus = useStore(chat.transcript, (now) =>
    commandStatusOf(statusOf(now), now.chat),
  );
  const slash = useSlashMenu(chat, draft, commandStatus);
  const history = useInputHistory(chat, draft, field);
  useStopOnEscape(chat);
  useFirstFocus(field);
  const press = (event: KeyboardEvent<HTMLTextAreaElement>) => {
    if (slash.press(event) || history.press(event)) return;
    const deliver = deliveryOf(event, isCoarse());
    if (deliver === null) return;
    event.preventDefault();
    if (!empty) send(deliver);
  };
  return (
    <div className="composer">
      <WaitingHint chat={chat} status={status} />
      {slash.open && <SlashMenu {...slash.list} />}
      <ComposerBox
        draft={draft}
        field={field}
        label="Message"
        placeholder={placeholder(status)}
        popup={slash.popup}
        onKeyDown={press}
        right={
          <>
            <StopButton chat={chat} status={status} />
            <SendButton status={status} empty={empty} armed={armed} onSend={send} />
          </>
        }
      />
      {slash.helping && <CommandHelp onClose={slash.closeHelp} />}
    </div>
  );
}

/** Sends at once, or as soon as the files are there. Asked again meanwhile, it does not. */
export function useSend(draft: Draft, send: (deliver: Deliver) => void) {
  const [armed, arm] = useState<Deliver | null>(null);
  const blocker = useStore(draft.content, sendBlocker);
  const now = useRef(send);
  now.current = send;
  useEffect(() => {
    if (armed === null || blocker === "uploading") return;
    arm(null);
    if (blocker === null) now.current(armed);
  }, [armed, blocker]);
  const ask = (deliver: Deliver) => {
    if (armed !== null) arm(null);
    else if (blocker === "failed") notify("A file failed to upload: retry it or remove it.");
    else if (blocker === "uploading") arm(deliver);
    else send(deliver);
  };
  return { armed: armed !== null, send: ask };
}

function useStopOnEscape(chat: OpenChat): void {
  useEscape(
    useCallback(() => {
      // Read now: the rendered status may be older.
      if (isBusy(statusOf(chat.transcript.get())) && !chat.stopping.get())
        void attempt(() => chat.interrupt());
    }, [chat]),
  );
}

/** Focuses the field, except on touch screens, where the keyboard would cover the messages. */
export function useFirstFocus(field: React.RefObject<HTMLTextAreaElement | null>): void {
  useEffect(() => {
    if (!isCoarse()) field.current?.focus();
  }, [field]);
}

/** Says what happens to a message while the agent waits. */
function WaitingHint({
  chat,
  status,
}: {
  readonly chat: OpenChat;
  readonly status: Status | null;
}) {
  const words = useStore(chat.transcript, ({ actions }) => waitingHint(status, actions));
  return words === null ? null : <p className="composer-waits">{words}</p>;
}
