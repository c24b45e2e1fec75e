/** The composer while something that was said before is changed. The draft of something new stays. */

import {
  type KeyboardEvent,
  type ReactNode,
  useCallback,
  useEffect,
  useRef,
  useState,
} from "react";
import type { Prompt, Queued, Stored } from "../api/types";
import { Button } from "../parts/button";
import { fromHere } from "../parts/leaving";
import { isCoarse } from "../parts/media";
import { attempt, notify } from "../parts/notices";
import { useStore } from "../state/store";
import type { OpenChat } from "../store/chat";
import { Box } from "./box";
import { asked } from "./deliver";
import { Draft } from "./draft";
import { useEscape } from "./keys";
import { contentOf, hindrance, isEmpty, promptOf } from "./prompt";
import { replaced } from "./superseded";

interface SaidProps {
  readonly chat: OpenChat;
  readonly stored: Stored;
}

export function EditSaid({ chat, stored }: SaidProps) {
  const words = useStore(chat.transcript, (transcript) => replaced(transcript, stored.number));
  const edit = useEdit(chat, () => contentOf(stored.message));
  const fork = async (prompt: Prompt) => {
    const arrive = fromHere();
    const made = await chat.fork(stored.number, prompt);
    arrive(`/chats/${made.id}`, "The fork is made.");
  };
  const save = () => edit.save((prompt) => chat.edit(stored.number, prompt));
  return (
    <EditBox edit={edit} words={words} onSave={save}>
      <Button busy={edit.saving} disabled={edit.empty} onClick={() => edit.save(fork)}>
        Fork instead
      </Button>
      <Button look="main" busy={edit.saving} disabled={edit.empty} onClick={save}>
        Save and send
      </Button>
    </EditBox>
  );
}

interface QueuedProps {
  readonly chat: OpenChat;
  readonly queued: Queued;
}

export function EditQueued({ chat, queued }: QueuedProps) {
  const waits = useStore(chat.transcript, ({ queue }) =>
    queue.some((each) => each.id === queued.id),
  );
  const edit = useEdit(chat, () => contentOf(queued.message));
  const save = () =>
    edit.save(async (prompt) => {
      if (waits) await chat.editQueued(queued.id, prompt);
      else chat.send(prompt, "queue");
    });
  const words = waits
    ? "Changes a message that waits in the queue."
    : "This message no longer waits. What you send is a message of its own.";
  return (
    <EditBox edit={edit} words={words} onSave={save}>
      <Button look="main" busy={edit.saving} disabled={edit.empty} onClick={save}>
        {waits ? "Save" : "Send"}
      </Button>
    </EditBox>
  );
}

type Edit = ReturnType<typeof useEdit>;

function useEdit(chat: OpenChat, begin: () => ReturnType<typeof contentOf>) {
  const [draft] = useState(() => new Draft(null, begin()));
  const [saving, setSaving] = useState(false);
  const empty = useStore(draft.content, isEmpty);
  const isHere = useRef(false);
  useEffect(() => {
    isHere.current = true;
    return () => {
      isHere.current = false;
      // It is kept nowhere: nobody comes back to it.
      draft.stop();
    };
  }, [draft]);
  const cancel = useCallback(() => chat.editing.set(null), [chat]);
  const save = async (by: (prompt: Prompt) => Promise<void>) => {
    const prompt = promptOf(draft.content.get());
    const hindered = hindrance(draft.content.get());
    if (prompt === null || saving) return;
    if (hindered !== null) {
      const what =
        hindered === "failed" ? "did not arrive: remove it, or try again" : "is on its way";
      return notify(`A file ${what}.`, true);
    }
    setSaving(true);
    // What is refused stays here, as it was written.
    if (!(await attempt(() => by(prompt)))) setSaving(false);
    // Else somebody changes something else by now.
    else if (isHere.current) cancel();
  };
  return { draft, saving, empty, cancel, save };
}

interface BoxProps {
  readonly edit: Edit;
  readonly words: string;
  readonly onSave: () => void;
  readonly children: ReactNode;
}

function EditBox({ edit: { draft, empty, cancel }, words, onSave, children }: BoxProps) {
  const field = useRef<HTMLTextAreaElement>(null);
  useEscape(cancel);
  useEffect(() => {
    const element = field.current;
    element?.focus();
    element?.setSelectionRange(element.value.length, element.value.length);
  }, []);
  const press = (event: KeyboardEvent) => {
    if (asked(event, isCoarse()) === null) return;
    event.preventDefault();
    if (!empty) onSave();
  };
  return (
    <div className="composer" data-editing>
      <Box
        draft={draft}
        field={field}
        label="Changed message"
        placeholder="Say something else"
        onKeyDown={press}
        above={
          <p className="composer-bar" role="status">
            {words}
          </p>
        }
        right={
          <>
            <Button look="plain" title="Cancel (Escape)" onClick={cancel}>
              Cancel
            </Button>
            {children}
          </>
        }
      />
    </div>
  );
}
