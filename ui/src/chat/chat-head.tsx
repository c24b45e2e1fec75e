/** The head of a chat: title, status, model picker, context meter and menu. */

import { useEffect, useState } from "react";
import { session } from "../api/session";
import type { Snapshot } from "../api/types";
import { useProvideReadOnly } from "../approvals/read-only";
import { useTabTitle } from "../approvals/tab-title";
import { useStore } from "../reactive/store";
import type { ChatList } from "../store/chat-list";
import type { OpenChat } from "../store/open-chat";
import { BackLink } from "../ui/back-link";
import { attempt } from "../ui/notices";
import { statusLabelOf } from "./context-usage";
import { DeleteDialog } from "./delete-dialog";
import "./chat-head.css";
import { chatName } from "../ui/format";
import { type HeadCommand, useChatCommands } from "./chat-actions";
import { ChatMenu } from "./chat-menu";
import { ContextMeter } from "./context-meter";
import { EditableTitle } from "./editable-title";
import { effortIn } from "./model-options";
import { ModelPicker } from "./model-picker";

interface Props {
  readonly chat: OpenChat;
  readonly list: ChatList;
}

export function ChatHead({ chat, list }: Props) {
  const snapshot = useStore(chat.transcript, (transcript) => transcript.chat);
  const listed = useStore(list.chats, ({ byId }) => byId.get(chat.id) ?? null);
  useEffect(() => void list.ensureLoaded(chat.id), [list, chat]);
  const now = snapshot ?? listed;
  // The list shows a change at once.
  const title = listed === null ? (now?.title ?? null) : listed.title;
  const name = chatName({ title, opening: listed?.opening ?? null });
  useTabTitle(now === null ? null : name);
  const mine = useMine(now);
  const { renaming, setRenaming, deleting, setDeleting, opens, run } = useHeadState();
  useChatCommands(chat, list, mine, run);
  useProvideReadOnly(chat.id, now !== null && !mine);
  return (
    <header className="head">
      <BackLink className="head-back" />
      <div className="head-about">
        <EditableTitle
          title={title}
          name={name}
          editable={mine}
          renaming={renaming}
          onRename={setRenaming}
          onSave={(to) => void attempt(() => list.change(chat.id, { title: to }))}
        />
        <StatusText chat={chat} mine={mine} />
      </div>
      {now !== null && (
        <>
          <Picker now={listed ?? now} list={list} disabled={!mine} opens={opens} />
          <ContextMeter chat={chat} readOnly={!mine} />
          <ChatMenu chat={chat} list={list} now={listed ?? now} mine={mine} onOpen={run} />
        </>
      )}
      {now !== null && !mine && <ReadOnly owner={listed?.owner_name ?? null} isOwn={owns(now)} />}
      {deleting && now !== null && (
        <DeleteDialog chat={now} list={list} onClose={() => setDeleting(false)} />
      )}
    </header>
  );
}

/** Which parts of the head are open, and a function to open them from elsewhere. */
function useHeadState() {
  const [renaming, setRenaming] = useState(false);
  const [deleting, setDeleting] = useState(false);
  const [opens, setOpens] = useState(0);
  const run = (command: HeadCommand) => {
    if (command === "rename") setRenaming(true);
    else if (command === "delete") setDeleting(true);
    else setOpens((times) => times + 1);
  };
  return { renaming, setRenaming, deleting, setDeleting, opens, run };
}

/** Whether the user owns the chat and may change it. */
function useMine(chat: Snapshot | null): boolean {
  const now = useStore(session);
  if (now.is !== "in" || chat === null) return false;
  const { role, scopes } = now.me;
  return owns(chat) && role !== "viewer" && scopes.includes("write");
}

function owns(chat: Snapshot): boolean {
  const now = session.get();
  return now.is === "in" && now.me.user === chat.owner;
}

/** The visible status. Screen readers get announcements from the end of the timeline. */
function StatusText({ chat, mine }: { readonly chat: OpenChat; readonly mine: boolean }) {
  const now = useStore(chat.transcript, (transcript) => transcript.chat);
  const stopping = useStore(chat.stopping);
  const waitsForUser = useStore(chat.transcript, ({ actions }) =>
    actions.some(({ kind }) => kind !== "child"),
  );
  const waitsFor = waitsForUser ? (mine ? "me" : "owner") : "chat";
  const status = now === null ? null : statusLabelOf(now, stopping, waitsFor);
  return (
    <p className="head-status" data-look={status?.look}>
      {status?.words}
    </p>
  );
}

interface PickerProps {
  readonly now: Snapshot;
  readonly list: ChatList;
  readonly disabled: boolean;
  readonly opens: number;
}

function Picker({ now, list, disabled, opens }: PickerProps) {
  return (
    <ModelPicker
      model={now.model}
      effort={effortIn(now.effort)}
      agent={now.agent}
      disabled={disabled}
      opens={opens}
      onChange={(picked) => void attempt(() => list.change(now.id, picked))}
    />
  );
}

function ReadOnly({ owner, isOwn }: { readonly owner: string | null; readonly isOwn: boolean }) {
  return (
    <p className="head-note">
      {isOwn
        ? "You have read-only access."
        : `This chat belongs to ${owner ?? "someone else"}. You can only read it.`}
    </p>
  );
}
