/** A message of a person. */

import { memo, useState } from "react";
import { session } from "../api/session";
import type { Part, Stored } from "../api/types";
import { useIsReadOnly } from "../approvals/read-only";
import { forkBefore } from "../composer/fork-before";
import { useStore } from "../reactive/store";
import { messageText } from "../store/message-text";
import type { OpenChat } from "../store/open-chat";
import { Button, IconButton } from "../ui/button";
import { deferredNavigation } from "../ui/deferred-navigation";
import { attempt } from "../ui/notices";
import { Attachments } from "./attachments";
import { CopyButton } from "./copy-button";
import { Icon } from "./icon";
import { SafeLink } from "./inline-markdown";
import { Timestamp } from "./timestamp";

interface Props {
  readonly chat: OpenChat;
  readonly stored: Stored;
}

export const PromptRow = memo(function PromptRow({ chat, stored }: Props) {
  const { parts } = stored.message;
  const text = messageText(parts);
  const isReadOnly = useIsReadOnly(chat.id);
  return (
    <div className="prompt">
      <Author stored={stored} />
      <Bubble chatId={chat.id} parts={parts} />
      <div className="prompt-bar">
        <Timestamp at={stored.created_at} />
        {text && <CopyButton label="Copy" text={() => text} />}
        {!isReadOnly && (
          <>
            <IconButton
              small
              label="Edit"
              onClick={() => chat.editing.set({ is: "message", stored })}
            >
              <Icon name="pencil" size={14} />
            </IconButton>
            <IconButton
              small
              label="Fork the chat before this message"
              onClick={() => void fork(chat, stored)}
            >
              <Icon name="git-fork" size={14} />
            </IconButton>
          </>
        )}
      </div>
    </div>
  );
});

async function fork(chat: OpenChat, stored: Stored): Promise<void> {
  const arrive = deferredNavigation();
  await attempt(async () => arrive(await forkBefore(chat.id, stored), "Fork created."));
}

/** The author, on team servers. */
function Author({ stored }: { readonly stored: Stored }) {
  const me = useStore(session, (now) => (now.is === "in" ? now.me : null));
  if (me === null || me.mode !== "team" || stored.author === null) return null;
  const name = stored.author === me.user ? "You" : stored.author;
  return <div className="prompt-author">{name}</div>;
}

interface BubbleProps {
  readonly chatId: string;
  readonly parts: readonly Part[];
}

export function Bubble({ chatId, parts }: BubbleProps) {
  const files = parts.filter((part) => part.type === "file");
  const sources = parts.filter((part) => part.type === "source");
  const text = messageText(parts);
  return (
    <>
      <Attachments chatId={chatId} files={files} />
      {text && <Words text={text} />}
      {sources.map((source) => (
        <p key={source.url} className="prompt-source">
          <SafeLink href={source.url}>{source.title || source.url}</SafeLink>
        </p>
      ))}
    </>
  );
}

const LONG_LINES = 18;
const LONG_TEXT = 1_600;

/** The text of a prompt. A long one is collapsed. */
function Words({ text }: { readonly text: string }) {
  const isLong = text.length > LONG_TEXT || text.split("\n", LONG_LINES + 1).length > LONG_LINES;
  const [isWhole, setWhole] = useState(false);
  return (
    <div className="prompt-bubble">
      <div className="prompt-text" data-cut={(isLong && !isWhole) || undefined}>
        {text}
      </div>
      {isLong && (
        <Button look="plain" aria-expanded={isWhole} onClick={() => setWhole(!isWhole)}>
          {isWhole ? "Show less" : "Show all"}
        </Button>
      )}
    </div>
  );
}
