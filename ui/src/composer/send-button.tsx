/** The send button with its delivery menu, and the stop button. */

import { ArrowUp, ChevronDown, ListEnd, Square } from "lucide-react";
import { useRef, useState } from "react";
import type { Deliver, Status } from "../api/types";
import { keysOf } from "../key-combinations";
import { useStore } from "../reactive/store";
import type { OpenChat } from "../store/open-chat";
import { Button, IconButton } from "../ui/button";
import { useFocusFallback } from "../ui/focus";
import { isCoarse } from "../ui/media-query";
import { Menu } from "../ui/menu";
import { attempt } from "../ui/notices";
import { deliveryModes, hasChoice, isBusy } from "./delivery";

interface Props {
  readonly status: Status | null;
  readonly empty: boolean;
  /** It is to be sent as soon as its files are there. */
  readonly armed: boolean;
  readonly onSend: (deliver: Deliver) => void;
}

export function SendButton({ status, empty, armed, onSend }: Props) {
  if (armed) {
    return (
      <Button onClick={() => onSend("queue")}>
        <span className="spinner" />
        Will be sent when the files are uploaded
      </Button>
    );
  }
  if (!hasChoice(status)) {
    return (
      <IconButton label="Send" look="main" disabled={empty} onClick={() => onSend("queue")}>
        <ArrowUp size={18} />
      </IconButton>
    );
  }
  return empty ? null : <QueueButton status={status} onSend={onSend} />;
}

/** One button to queue, and another for the other ways. */
function QueueButton({ status, onSend }: Pick<Props, "status" | "onSend">) {
  const [open, setOpen] = useState(false);
  const more = useRef<HTMLButtonElement>(null);
  const items = deliveryModes(status).map(({ deliver, name, about, keys }) => {
    // Where there are no keys, none are named.
    const hint = isCoarse() ? {} : { hint: keysOf(keys).join(" ") };
    return { name, about, ...hint, onChoose: () => onSend(deliver) };
  });
  return (
    <span className="composer-split">
      <Button look="main" title="Queue (Enter)" onClick={() => onSend("queue")}>
        <ListEnd size={16} />
        Queue
      </Button>
      <button
        ref={more}
        type="button"
        className="button"
        data-look="main"
        data-icon="small"
        aria-label="Other ways to send"
        title="Other ways to send"
        aria-haspopup="menu"
        aria-expanded={open}
        onClick={() => setOpen(!open)}
      >
        <ChevronDown size={14} />
      </button>
      {open && more.current && (
        <Menu items={items} at={more.current} label="Ways to send" onClose={() => setOpen(false)} />
      )}
    </span>
  );
}

interface StopProps {
  readonly chat: OpenChat;
  readonly status: Status | null;
}

export function StopButton({ chat, status }: StopProps) {
  const isRequested = useStore(chat.stopping);
  if (!hasChoice(status)) return null;
  return (
    <Stop
      chat={chat}
      status={status}
      stopping={status === "interrupting" || (isRequested && isBusy(status))}
    />
  );
}

interface StoppingProps extends StopProps {
  readonly stopping: boolean;
}

function Stop({ chat, status, stopping }: StoppingProps) {
  const button = useRef<HTMLButtonElement>(null);
  // When it disappears, the focus moves to the composer.
  useFocusFallback(button, () => null);
  return (
    <Button
      ref={button}
      busy={stopping}
      title={isBusy(status) ? "Stop the agent (Escape)" : "Stop the turn that is waiting"}
      onClick={() => attempt(() => chat.interrupt())}
    >
      <Square size={12} fill="currentColor" />
      {stopping ? "Stopping…" : "Stop"}
    </Button>
  );
}
