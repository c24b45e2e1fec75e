/** The composer while a sent or queued message is edited; the draft of a new one is kept. */

import {
  type KeyboardEvent,
  type ReactNode,
  useCallback,
  useEffect,
  useRef,
  useState,
} from "react";
import type { Prompt, Queued, Stored } from "../api/types";
import { useStore } from "../reactive/store";
import type { OpenChat } from "../store/open-chat";
import { Button } from "../ui/button";
import { deferredNavigation } from "../ui/deferred-navigation";
import { isCoarse } from "../ui/media-query";
import { attempt, notify } from "../ui/notices";
import { ComposerBox } from "./composer-box";
import { deliveryOf } from "./delivery";
import { Draft } from "./draft";
import { contentOf, isEmpty, promptOf, sendBlocker } from "./draft-content";
import { editWarning } from "./edit-warning";
import { useEscape } from "./use-escape";

interface EditSentProps {
  readonly chat: OpenChat;
  readonly stored: Stored;
}

export function EditSent({ chat, stored }: EditSentProps) {
  const words = useStore(chat.transcript, (transcript) => editWarning(transcript, stored.number));
  const edit = useEdit(chat, () => contentOf(stored.message));
  const fork = async (prompt: Prompt) => {
    const arrive = deferredNavigation();
    const forked = await chat.fork(stored.number, prompt);
    arrive(`/chats/${forked.id}`, "Fork created.");
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

interface EditQueuedProps {
  readonly chat: OpenChat;
  readonly queued: Queued;
}

export function EditQueued({ chat, queued }: EditQueuedProps) {
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
    ? "You are editing a queued message."
    : "This message has left the queue. It will be sent as a new message.";
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
      // It is not stored: an edit is not resumed.
      draft.stop();
    };
  }, [draft]);
  const cancel = useCallback(() => chat.editing.set(null), [chat]);
  const save = async (by: (prompt: Prompt) => Promise<void>) => {
    const prompt = promptOf(draft.content.get());
    const blocker = sendBlocker(draft.content.get());
    if (prompt === null || saving) return;
    if (blocker !== null) {
      const what =
        blocker === "failed" ? "failed to upload: retry it or remove it" : "is still uploading";
      return notify(`A file ${what}.`, true);
    }
    setSaving(true);
    // A refused edit stays open, with its text.
    if (!(await attempt(() => by(prompt)))) setSaving(false);
    // Otherwise another message is being edited by now.
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
    if (deliveryOf(event, isCoarse()) === null) return;
    event.preventDefault();
    if (!empty) onSave();
  };
  return (
    <div className="composer" data-editing>
      <ComposerBox
        draft={draft}
        field={field}
        label="Edited message"
        placeholder="Edit the message"
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
