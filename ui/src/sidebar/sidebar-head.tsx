/** The head of the sidebar: logo, new chat, inbox and search; as a rail when collapsed. */

import { Inbox, PanelLeftClose, PanelLeftOpen, Search, SquarePen } from "lucide-react";
import { type ReactNode, type RefObject, useRef } from "react";
import { Link, useRoute } from "wouter";
import { usePendingCount } from "../approvals/tab-title";
import { Keys } from "../shortcuts";
import type { ChatList } from "../store/chat-list";
import { setPreferences } from "../store/preferences";
import { IconButton } from "../ui/button";
import { useFocusFallback } from "../ui/focus";
import { useNarrow } from "../ui/media-query";
import { SmallConnectionStatus } from "./connection-status";
import { FilterButton } from "./filter-button";
import { Logo } from "./logo";

interface Props {
  readonly list: ChatList;
  readonly onSearch: () => void;
}

const SIZE = 17;

export function SidebarHead({ list, onSearch }: Props) {
  const needs = usePendingCount(list);
  const narrow = useNarrow();
  return (
    <header className="sidebar-head">
      <div className="sidebar-top">
        <Link href="/" className="sidebar-name">
          <Logo />
          Holdfast
        </Link>
        <FilterButton />
        {!narrow && (
          <IconButton
            label="Hide the list (Alt+B)"
            data-toggle="list"
            onClick={() => setPreferences({ sidebar: false })}
          >
            <PanelLeftClose size={SIZE} />
          </IconButton>
        )}
      </div>
      <NavLink
        href="/new"
        icon={<SquarePen size={SIZE} />}
        name="New chat"
        hint={<Keys of="Alt+N" />}
      />
      <button type="button" className="sidebar-link" onClick={onSearch}>
        <Search size={SIZE} />
        <span>Search</span>
        <Keys of="Ctrl+K" />
      </button>
      <NavLink
        href="/inbox"
        icon={<Inbox size={SIZE} />}
        name="Inbox"
        hint={<Count of={needs} />}
      />
    </header>
  );
}

interface NavLinkProps {
  readonly href: string;
  readonly icon: ReactNode;
  readonly name: string;
  readonly hint: ReactNode;
}

function NavLink({ href, icon, name, hint }: NavLinkProps) {
  const [isHere] = useRoute(href);
  return (
    <Link href={href} className="sidebar-link" aria-current={isHere ? "page" : undefined}>
      {icon}
      <span>{name}</span>
      {hint}
    </Link>
  );
}

function Count({ of }: { readonly of: number }) {
  if (of === 0) return <Keys of="Alt+I" />;
  return (
    <span className="sidebar-count">
      {of}
      <span className="hidden-text"> waiting for you</span>
    </span>
  );
}

/** Moves the focus to the show/hide button when the sidebar is hidden or shown. */
export function useFocusToToggle(ref: RefObject<HTMLElement | null>): void {
  useFocusFallback(ref, () => null, '[data-toggle="list"]');
}

/** The collapsed sidebar: icons only. */
export function Rail({ list, onSearch }: Props) {
  const needs = usePendingCount(list);
  const rail = useRef<HTMLElement>(null);
  useFocusToToggle(rail);
  return (
    <nav ref={rail} className="sidebar-rail" aria-label="Chats">
      <IconButton
        label="Show the list (Alt+B)"
        data-toggle="list"
        onClick={() => setPreferences({ sidebar: true })}
      >
        <PanelLeftOpen size={SIZE} />
      </IconButton>
      <Link href="/new" className="sidebar-rail-link" aria-label="New chat" title="New chat">
        <SquarePen size={SIZE} />
      </Link>
      <IconButton label="Search" onClick={onSearch}>
        <Search size={SIZE} />
      </IconButton>
      <Link
        href="/inbox"
        className="sidebar-rail-link"
        aria-label={needs > 0 ? `Inbox: ${needs} waiting for you` : "Inbox"}
        title="Inbox"
        data-on={needs > 0 || undefined}
      >
        <Inbox size={SIZE} />
      </Link>
      <SmallConnectionStatus list={list} />
    </nav>
  );
}
