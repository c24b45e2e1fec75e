/** The row of a chat in the sidebar. */

import { Ellipsis, MessageCircleQuestion, OctagonPause, TriangleAlert } from "lucide-react";
import { type KeyboardEvent, type MouseEvent, memo, useRef, useState } from "react";
import { Link } from "wouter";
import type { Chat } from "../api/types";
import { returnFocus, useFocusFallback } from "../ui/focus";
import { chatName, fullTime } from "../ui/format";
import { Menu } from "../ui/menu";
import { TitleField } from "../ui/title-field";
import { type ChatRowActions, itemsOf } from "./chat-row-actions";
import { type ChatStatus, chatStatusOf, STATUS_LABELS, statusLineOf } from "./chat-status";

/** The trimmed title; null if there is none. */
function titleOf(chat: Chat): string | null {
  return chat.title?.trim() || null;
}

interface Props {
  readonly chat: Chat;
  readonly isOpen: boolean;
  /** Whether Tab enters the list at this row. */
  readonly isStop: boolean;
  readonly href: string;
  /** How long ago it changed. */
  readonly time: string;
  /** Start time, if another chat has the same name. */
  readonly startTime: string | null;
  /** The agent's default model. */
  readonly defaultModel: string | null;
  readonly actions: ChatRowActions;
}

export const ChatRow = memo(function ChatRow(props: Props) {
  const { chat, isOpen, actions } = props;
  const [isRenaming, setRenaming] = useState(false);
  const line = useRef<HTMLLIElement>(null);
  useFocusFallback(line, rowBeside);
  const menu = useMenu(() => returnFocus(line.current?.querySelector("a")));
  const mayChange = chat.mine !== false;
  const press = (event: KeyboardEvent) => {
    if (event.key === "ContextMenu" || (event.key === "F10" && event.shiftKey)) {
      menu.open(event, line.current);
    } else if (event.key === "F2" && mayChange) setRenaming(true);
    else if (event.key === "Delete" && mayChange) actions.remove(chat);
    else return;
    event.preventDefault();
  };
  const finish = () => {
    setRenaming(false);
    requestAnimationFrame(() => returnFocus(line.current?.querySelector("a")));
  };
  const rename = () => setRenaming(true);
  return (
    <li
      ref={line}
      className="sidebar-row"
      data-status={chatStatusOf(chat, isOpen)}
      data-open={isOpen || undefined}
    >
      {isRenaming ? (
        <TitleField
          label="Chat title"
          className="sidebar-row-input"
          title={chat.title ?? ""}
          name={chatName(chat)}
          onSave={(title) => actions.rename(chat, title)}
          onDone={finish}
        />
      ) : (
        <RowLink {...props} onKeyDown={press} onMenu={menu.open} />
      )}
      <button
        type="button"
        className="sidebar-row-more"
        aria-label={`Actions for ${titleOf(chat) ?? "this chat"}`}
        aria-haspopup="menu"
        aria-expanded={menu.at !== null}
        // Not a Tab stop: the row has Shift+F10.
        tabIndex={-1}
        onClick={(event) => menu.toggle(event.currentTarget)}
      >
        <Ellipsis size={16} />
      </button>
      {menu.at && (
        <Menu
          label="Actions for this chat"
          at={menu.at}
          items={itemsOf(chat, actions, { rename, isOpen })}
          onClose={menu.close}
        />
      )}
    </li>
  );
});

function rowBeside(row: HTMLElement): HTMLElement | null | undefined {
  const beside = row.nextElementSibling ?? row.previousElementSibling;
  const others = row.closest(".sidebar-list")?.querySelectorAll<HTMLElement>("[data-stop]") ?? [];
  return (
    beside?.querySelector<HTMLElement>("[data-stop]") ??
    [...others].find((other) => !row.contains(other))
  );
}

interface LinkProps extends Props {
  readonly onKeyDown: (event: KeyboardEvent) => void;
  readonly onMenu: (event: MouseEvent, row: HTMLElement | null) => void;
}

function RowLink(props: LinkProps) {
  const {
    chat,
    isOpen,
    isStop,
    href,
    time,
    startTime: begun,
    defaultModel: usual,
    onKeyDown,
    onMenu,
  } = props;
  const status = chatStatusOf(chat, isOpen);
  const title = titleOf(chat);
  return (
    <Link
      href={href}
      className="sidebar-row-link"
      aria-current={isOpen ? "page" : undefined}
      tabIndex={isStop ? 0 : -1}
      title={chatName(chat)}
      data-stop=""
      onKeyDown={onKeyDown}
      onContextMenu={(event: MouseEvent<HTMLAnchorElement>) =>
        onMenu(event, event.currentTarget.parentElement)
      }
    >
      <span className="sidebar-row-icon">
        <Icon of={status} />
      </span>
      <span className="sidebar-row-title" data-none={title === null || undefined}>
        {chatName(chat)}
      </span>
      <time className="sidebar-row-time" dateTime={new Date(chat.updated_at / 1000).toISOString()}>
        <span title={fullTime(chat.updated_at)}>{time}</span>
      </time>
      <span className="sidebar-row-status">
        {begun !== null && `Started ${begun} · `}
        {statusLineOf(chat, usual)}
      </span>
      {STATUS_LABELS[status] && <span className="hidden-text">, {STATUS_LABELS[status]}</span>}
    </Link>
  );
}

function Icon({ of }: { readonly of: ChatStatus }) {
  switch (of) {
    case "working":
    case "stopping":
      return <span className="spinner" />;
    case "waiting":
      return <MessageCircleQuestion size={16} />;
    case "failed":
      return <TriangleAlert size={15} />;
    case "stopped":
      return <OctagonPause size={15} />;
    case "unread":
      return <span className="sidebar-row-dot" />;
    case "idle":
      return null;
  }
}

/** Open state and position of a row's menu. */
function useMenu(focusRow: () => void) {
  const [at, setAt] = useState<HTMLElement | { x: number; y: number } | null>(null);
  return {
    at,
    /** Opens at the pointer, or below the row for keys. */
    open(event: MouseEvent | KeyboardEvent, row: HTMLElement | null) {
      event.preventDefault();
      const box = row?.getBoundingClientRect();
      const pointed = "clientX" in event && event.clientX > 0 && event.button === 2;
      if (pointed) setAt({ x: event.clientX, y: event.clientY });
      else if (box !== undefined) setAt({ x: box.left + 24, y: box.bottom - 8 });
    },
    toggle: (button: HTMLElement) => setAt(at === null ? button : null),
    close() {
      setAt(null);
      focusRow();
    },
  };
}
