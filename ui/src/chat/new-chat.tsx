/** The page for a new chat: agent, model and first message. */

import { ArrowLeft, ArrowUp, ChevronDown } from "lucide-react";
import { type KeyboardEvent, type ReactNode, useMemo, useRef, useState } from "react";
import { Link } from "wouter";
import { IdempotencyKeys } from "../api/idempotency-key";
import type { Agent, Prompt } from "../api/types";
import { ComposerBox } from "../composer/composer-box";
import { deliveryOf } from "../composer/delivery";
import { type Draft, draftNamed } from "../composer/draft";
import { type DraftContent, isEmpty, promptOf, sendBlocker } from "../composer/draft-content";
import { useFirstFocus, useSend } from "../composer/new-message";
import { readStored, writeStored } from "../reactive/local-storage";
import { useStore } from "../reactive/store";
import { catalogStore } from "../store/catalog";
import type { ChatList } from "../store/chat-list";
import type { ModelChoice } from "../store/open-chat";
import { IconButton } from "../ui/button";
import { deferredNavigation } from "../ui/deferred-navigation";
import { isCoarse } from "../ui/media-query";
import { MenuButton } from "../ui/menu";
import { attempt } from "../ui/notices";
import { DemoNotice, Suggestions } from "./demo-suggestions";
import "./new-chat.css";
import { ModelPicker } from "./model-picker";
import { isDemo } from "./suggestions";

interface Props {
  readonly list: ChatList;
}

export function NewChat({ list }: Props) {
  const draft = useMemo(() => draftNamed("new"), []);
  const start = useNewChatOptions();
  const { creating, create } = useCreate(list, start);
  const [suggested] = useState(() => new IdempotencyKeys());
  const demo = isDemo(start.choice.model ?? start.agent?.model);
  return (
    <div className="new">
      <Link href="/" className="button new-back" data-look="plain" data-icon="">
        <ArrowLeft size={18} aria-hidden="true" />
        <span className="hidden-text">Back to the chats</span>
      </Link>
      <div className="new-middle">
        <h1>What should the agent do?</h1>
        <NewBox
          draft={draft}
          creating={creating}
          onCreate={(prompt, onCreated) => create(prompt, draft.keys, onCreated)}
        >
          <AgentPicker {...start} />
          {start.agent !== undefined && (
            <ModelPicker
              agent={start.agent.name}
              model={start.choice.model ?? null}
              effort={start.choice.effort ?? null}
              onChange={({ model, effort }) =>
                start.setChoice({ ...(model ? { model } : {}), ...(effort ? { effort } : {}) })
              }
            />
          )}
        </NewBox>
        {demo && <DemoNotice />}
        {demo && (
          <Suggestions
            agent={start.agent}
            disabled={creating}
            onChoose={(prompt) => create(prompt, suggested)}
          />
        )}
      </div>
    </div>
  );
}

interface NewChatOptions {
  readonly agent: Agent | undefined;
  /** Name of the agent; null for the default. */
  readonly chosen: string | null;
  readonly agents: readonly Agent[];
  readonly choice: ModelChoice;
  readonly setAgent: (name: string) => void;
  readonly setChoice: (choice: ModelChoice) => void;
}

/** Agent and model for a new chat: the last choice, if it is still available. */
function useNewChatOptions(): NewChatOptions {
  const knownAgents = useStore(catalogStore)?.agents;
  const [{ name, choice }, set] = useState(() =>
    readStored<{ name: string | null; choice: ModelChoice }>("new", { name: null, choice: {} }),
  );
  const change = (next: { name: string | null; choice: ModelChoice }) => {
    set(next);
    writeStored("new", next, { name: null, choice: {} });
  };
  const agents = knownAgents ?? [];
  const lastAgent = agents.find((each) => each.name === name);
  return {
    agents,
    agent: lastAgent ?? agents[0],
    // The stored name until the agents are loaded: a retry must send the same request.
    chosen: knownAgents === undefined ? name : (lastAgent?.name ?? null),
    choice,
    // Each agent has its own default model.
    setAgent: (chosen) => change({ name: chosen, choice: {} }),
    setChoice: (chosen) => change({ name, choice: chosen }),
  };
}

/** Creates the chat. A retry of the same request does not create a second one. */
function useCreate(list: ChatList, { chosen, choice }: NewChatOptions) {
  const [creating, setCreating] = useState(false);
  const create = async (
    prompt: Prompt,
    keys: IdempotencyKeys,
    onCreated?: (chat: string) => void,
  ) => {
    const key = keys.for([prompt, chosen, choice]);
    const arrive = deferredNavigation();
    setCreating(true);
    await attempt(async () => {
      const chat = await list.create(prompt, chosen, choice, key);
      keys.done();
      onCreated?.(chat.id);
      arrive(`/chats/${chat.id}`, "Chat started.");
    });
    setCreating(false);
  };
  return { creating, create };
}

interface BoxProps {
  readonly draft: Draft;
  readonly creating: boolean;
  readonly onCreate: (prompt: Prompt, onCreated: (chat: string) => void) => void;
  readonly children: ReactNode;
}

function NewBox({ draft, creating, onCreate, children }: BoxProps) {
  const field = useRef<HTMLTextAreaElement>(null);
  const empty = useStore(draft.content, isEmpty);
  useFirstFocus(field);
  const { armed, send } = useSend(draft, () => {
    const content = draft.content.get();
    const prompt = promptOf(content);
    if (prompt === null || creating) return;
    const here = location.pathname;
    // After a refusal the draft stays.
    onCreate(prompt, (chat) => {
      if (draft.isMine) moveLaterText(content, location.pathname === here ? chat : null);
    });
  });
  const press = (event: KeyboardEvent) => {
    if (deliveryOf(event, isCoarse()) === null) return;
    event.preventDefault();
    if (!empty) send("queue");
  };
  const busy = creating || armed;
  return (
    <div className="composer">
      <ComposerBox
        draft={draft}
        field={field}
        label="Message"
        placeholder="Describe the task"
        onKeyDown={press}
        left={children}
        right={
          <IconButton
            label={armed ? "Will be sent when the files are uploaded" : "Send"}
            look="main"
            busy={creating}
            disabled={empty}
            onClick={() => send("queue")}
          >
            {busy ? <span className="spinner" /> : <ArrowUp size={18} />}
          </IconButton>
        }
      />
    </div>
  );
}

/** Moves text written during the creation into the new chat, if the user is taken there. */
function moveLaterText(sent: DraftContent, chat: string | null): void {
  // The draft may be another object by now.
  const draft = draftNamed("new");
  draft.removeSent(sent);
  const since = draft.content.get();
  if (chat === null || isEmpty(since) || sendBlocker(since) !== null) return;
  draftNamed(chat).prepend(since);
  draft.clear();
}

function AgentPicker({ agent, agents, setAgent }: NewChatOptions) {
  if (agents.length < 2 || agent === undefined) return null;
  const items = agents.map(({ name, description, model }) => ({
    name,
    about: description || model,
    chosen: name === agent.name,
    onChoose: () => setAgent(name),
  }));
  return (
    <MenuButton label={`Agent: ${agent.name}`} items={items} className="button">
      {agent.name}
      <ChevronDown size={14} aria-hidden="true" />
    </MenuButton>
  );
}
