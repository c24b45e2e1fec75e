/** Options of the search: chats, messages in them, and commands. */

import {
  Archive,
  CornerDownRight,
  Inbox,
  Keyboard,
  ListFilter,
  LogOut,
  MessageSquare,
  PanelLeft,
  Settings,
  SquarePen,
} from "lucide-react";
import type { ReactNode } from "react";
import type { Schemas } from "../api/schema";
import { session, signOut } from "../api/session";
import type { Chat } from "../api/types";
import { THEMES } from "../sidebar/sidebar-foot";
import { preferences, setPreferences } from "../store/preferences";
import { chatName } from "../ui/format";
import { NARROW_SCREEN } from "../ui/media-query";
import { attempt } from "../ui/notices";
import { matchesName, type Pill, pillName } from "./query";

export type Piece = Schemas["SnippetPart"];

export interface Option {
  readonly key: string;
  readonly icon: ReactNode;
  readonly name: readonly Piece[];
  /** Text after the name. */
  readonly hint?: string;
  readonly keys?: string;
  readonly chat?: Chat;
  /** Indented below the option before it. */
  readonly inside?: boolean;
  readonly choose: () => void;
}

export interface Group {
  readonly name: string;
  readonly options: readonly Option[];
}

type Go = (address: string) => void;

const SIZE = 16;
const plain = (text: string): readonly Piece[] => [{ text }];

/** Options of a chat: the chat itself, and below it its matching messages. */
export function chatOptions(chat: Chat, go: Go): readonly Option[] {
  const matches = chat.matches ?? [];
  const title = matches.find(({ number }) => number === null)?.snippet;
  return [
    {
      key: chat.id,
      icon: chat.archived ? <Archive size={SIZE} /> : <MessageSquare size={SIZE} />,
      name: title ?? plain(chatName(chat)),
      chat,
      choose: () => go(`/chats/${chat.id}`),
    },
    ...matches.filter(({ number }) => number !== null).map((match) => matchOption(chat, match, go)),
  ];
}

function matchOption(chat: Chat, { number, snippet }: Schemas["Match"], go: Go): Option {
  return {
    key: `${chat.id}-${number}`,
    icon: <CornerDownRight size={SIZE} />,
    name: snippet,
    inside: true,
    choose: () => go(`/chats/${chat.id}#m${number}`),
  };
}

export function pillOption(pill: Pill, choose: () => void): Option {
  const icon = <ListFilter size={SIZE} />;
  return { key: `pill-${pill}`, icon, name: plain(`Filter: ${pillName(pill)}`), choose };
}

/** Names of settings sections, by URL path. */
const SECTIONS = {
  models: "models",
  providers: "providers and keys",
  agents: "agents",
  appearance: "appearance",
  account: "account",
} as const;

interface CommandOption {
  readonly name: string;
  readonly icon: ReactNode;
  readonly keys?: string;
  readonly choose: () => void;
}

/** Commands of the page that match a text. */
export function commandOptions(text: string, go: Go, showKeys: () => void): readonly Option[] {
  const all = [
    ...navigationCommands(go, showKeys),
    ...settingsCommands(go),
    ...themeCommands(),
    ...signOutCommand(),
  ];
  return all
    .filter(({ name }) => text === "" || matchesName(name, text))
    .map(({ name, ...rest }) => ({ key: `do-${name}`, name: plain(name), ...rest }));
}

function navigationCommands(go: Go, showKeys: () => void): readonly CommandOption[] {
  const { sidebar } = preferences.get();
  const toggleList: CommandOption = {
    name: sidebar ? "Hide the list" : "Show the list",
    icon: <PanelLeft size={SIZE} />,
    keys: "Alt+B",
    choose: () => setPreferences({ sidebar: !sidebar }),
  };
  return [
    {
      name: "New chat",
      icon: <SquarePen size={SIZE} />,
      keys: "Alt+N",
      choose: () => go("/new"),
    },
    { name: "Inbox", icon: <Inbox size={SIZE} />, keys: "Alt+I", choose: () => go("/inbox") },
    {
      name: "Show archived chats",
      icon: <Archive size={SIZE} />,
      choose: () => go(`${location.pathname}?archived=yes`),
    },
    ...(matchMedia(NARROW_SCREEN).matches ? [] : [toggleList]),
    { name: "Keyboard shortcuts", icon: <Keyboard size={SIZE} />, keys: "?", choose: showKeys },
  ];
}

function settingsCommands(go: Go): readonly CommandOption[] {
  return Object.entries(SECTIONS).map(([section, name]) => ({
    name: `Settings: ${name}`,
    icon: <Settings size={SIZE} />,
    choose: () => go(`/settings/${section}`),
  }));
}

function themeCommands(): readonly CommandOption[] {
  return THEMES.map(({ theme, name, Icon }) => ({
    name: `Theme: ${name.toLowerCase()}`,
    icon: <Icon size={SIZE} />,
    choose: () => setPreferences({ theme }),
  }));
}

function signOutCommand(): readonly CommandOption[] {
  const now = session.get();
  if (now.is !== "in" || now.me.mode === "local") return [];
  const icon = <LogOut size={SIZE} />;
  return [{ name: "Sign out", icon, choose: () => void attempt(signOut) }];
}
