/** The search palette: chats, messages and commands. */

import { Search as Glass, X } from "lucide-react";
import { type KeyboardEvent, useId, useState } from "react";
import { useLocation } from "wouter";
import { useStore } from "../reactive/store";
import { useDialogState, useShortcut } from "../shortcuts";
import { catalogStore } from "../store/catalog";
import type { ChatList } from "../store/chat-list";
import { IconButton } from "../ui/button";
import { useModal } from "../ui/dialog";
import {
  PILLS,
  type Pill,
  pillName,
  recentChats,
  searchQueryOf,
  suggestedPills,
  takePill,
  withoutPartialPill,
  withoutPill,
  withPill,
} from "./query";
import { Options } from "./result-list";
import { chatOptions, commandOptions, type Group, type Option, pillOption } from "./result-options";
import { useServerResults } from "./server-results";
import "./search.css";

interface Props {
  readonly list: ChatList;
  readonly onClose: () => void;
  readonly onKeys?: () => void;
}

const RECENT = 7;
const FEW = 4;

export function useSearchKey() {
  const opening = useDialogState();
  useShortcut("mod+k", opening.open);
  return opening;
}

export function Search({ list, onClose, onKeys = () => {} }: Props) {
  const { text, write, pills, setPills, add } = useSearchInput();
  const results = useServerResults(searchQueryOf(text, pills));
  const groups = useGroups({ list, text, pills, results: results.chats, add, onKeys });
  const options = groups.flatMap((group) => group.options);
  const choice = useChoice(options, text, onClose);
  const id = useId();
  const press = (event: KeyboardEvent<HTMLInputElement>) => {
    if (event.key === "Backspace" && text === "") setPills(pills.slice(0, -1));
    else choice.press(event);
  };
  return (
    <SearchDialog onClose={onClose}>
      <div className="search-line">
        <Glass size={17} aria-hidden="true" />
        <input
          role="combobox"
          aria-expanded="true"
          aria-controls={id}
          aria-activedescendant={choice.active ? `${id}-${choice.active}` : undefined}
          aria-autocomplete="list"
          aria-label="Search chats and messages, or run a command"
          placeholder="Search, or run a command"
          autoComplete="off"
          spellCheck={false}
          maxLength={400}
          // biome-ignore lint/a11y/noAutofocus: this is what the dialog was opened for
          autoFocus
          value={text}
          onChange={(event) => write(event.target.value)}
          onKeyDown={press}
        />
        {results.isReading && <span className="spinner" />}
        <IconButton label="Close" onClick={onClose}>
          <X size={17} />
        </IconButton>
      </div>
      <PillLine pills={pills} onChange={setPills} />
      <Options id={id} groups={groups} choice={choice} results={results} />
    </SearchDialog>
  );
}

/** Words, and the filters that some of them become. */
function useSearchInput() {
  const [text, setText] = useState("");
  const [pills, setPills] = useState<readonly Pill[]>([]);
  const add = (pill: Pill) => {
    setPills(withPill(pills, pill));
    setText(withoutPartialPill(text));
  };
  const write = (input: string) => {
    const now = takePill(input);
    setText(now.text);
    if (now.pill !== null) setPills(withPill(pills, now.pill));
  };
  return { text, write, pills, setPills, add };
}

/** The dialog of the search. Its position does not depend on the number of results. */
function SearchDialog({ onClose, children }: { onClose: () => void; children: React.ReactNode }) {
  return (
    <dialog {...useModal(onClose)} className="search" aria-label="Search">
      {children}
    </dialog>
  );
}

interface PillProps {
  readonly pills: readonly Pill[];
  readonly onChange: (pills: readonly Pill[]) => void;
}

/** Toggle buttons for all filters. */
function PillLine({ pills, onChange }: PillProps) {
  const agents = pills.filter((pill) => pill.startsWith("agent:"));
  return (
    <fieldset className="search-pills">
      <legend className="hidden-text">Filters</legend>
      {[...agents, ...PILLS].map((pill) => {
        const isOn = pills.includes(pill);
        return (
          <button
            key={pill}
            type="button"
            aria-pressed={isOn}
            onClick={() => onChange(isOn ? withoutPill(pills, pill) : withPill(pills, pill))}
          >
            {pillName(pill)}
            {isOn && <X size={12} aria-hidden="true" />}
          </button>
        );
      })}
    </fieldset>
  );
}

interface GroupInput {
  readonly list: ChatList;
  readonly text: string;
  readonly pills: readonly Pill[];
  readonly results: ReturnType<typeof useServerResults>["chats"];
  readonly add: (pill: Pill) => void;
  readonly onKeys: () => void;
}

function useGroups({ list, text, pills, results, add, onKeys }: GroupInput): readonly Group[] {
  const chats = useStore(list.chats, ({ byId }) => byId);
  const agents = useStore(catalogStore, (now) => now?.agents) ?? [];
  const go = useGo();
  const words = withoutPartialPill(text).trim();
  const filters = suggestedPills(
    text,
    agents.map(({ name }) => name),
  ).map((pill) => pillOption(pill, () => add(pill)));
  const isEmpty = words === "" && pills.length === 0;
  const actions = pills.length > 0 ? [] : commandOptions(words, go, onKeys);
  const groups = [
    { name: "Filters", options: filters },
    {
      name: "Recent chats",
      options: isEmpty
        ? recentChats(chats.values(), RECENT).flatMap((chat) => chatOptions(chat, go))
        : [],
    },
    { name: "Actions", options: isEmpty ? actions : actions.slice(0, FEW) },
    { name: "Chats", options: (results ?? []).flatMap((chat) => chatOptions(chat, go)) },
  ];
  return groups.filter(({ options }) => options.length > 0);
}

function useGo(): (address: string) => void {
  const [, navigate] = useLocation();
  return (address) => {
    navigate(address);
    // The browser fires this by itself only when a link is followed.
    if (address.includes("#")) dispatchEvent(new HashChangeEvent("hashchange"));
  };
}

export interface Selection {
  /** The key of the option that Enter chooses. */
  readonly active: string | null;
  readonly point: (key: string) => void;
  readonly choose: (option: Option) => void;
  readonly press: (event: KeyboardEvent) => void;
}

function useChoice(options: readonly Option[], text: string, onClose: () => void): Selection {
  const [selected, setSelected] = useState<{ key: string; text: string } | null>(null);
  // A new query selects the first option.
  const isStillThere = selected?.text === text && options.some(({ key }) => key === selected.key);
  const active = isStillThere ? selected.key : (options[0]?.key ?? null);
  const point = (key: string) => setSelected({ key, text });
  const choose = (option: Option) => {
    if (!option.key.startsWith("pill-")) onClose();
    option.choose();
  };
  const press = (event: KeyboardEvent) => {
    const at = options.findIndex(({ key }) => key === active);
    const count = options.length;
    const to = { ArrowDown: (at + 1) % count, ArrowUp: (at - 1 + count) % count }[event.key];
    const option = to === undefined ? options[at] : options[to];
    if (option === undefined || event.nativeEvent.isComposing) return;
    if (to !== undefined) point(option.key);
    else if (event.key === "Enter") choose(option);
    else return;
    event.preventDefault();
  };
  return { active, point, choose, press };
}
