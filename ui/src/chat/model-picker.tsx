/** The model picker: model and reasoning effort. */

import { Check, ChevronDown } from "lucide-react";
import { useEffect, useId, useMemo, useRef, useState } from "react";
import { Link } from "wouter";
import type { Effort } from "../api/types";
import { useStore } from "../reactive/store";
import { type Catalog, catalogStore, useCatalog } from "../store/catalog";
import { Button } from "../ui/button";
import { type Floating, useFloating } from "../ui/floating";
import { count } from "../ui/format";
import { Popover } from "../ui/popover";
import {
  EFFORTS,
  effectiveModel,
  effortName,
  effortsOf,
  type ModelGroup,
  type ModelOption,
  modelGroups,
  nextChoosable,
  shortName,
  supportedEffort,
  unlistedModel,
} from "./model-options";
import "./model-picker.css";

/** Chosen model and effort; null for the agent's default. */
export interface ModelSelection {
  readonly model: string | null;
  readonly effort: Effort | null;
}

interface Props extends ModelSelection {
  /** The name of the agent that answers. */
  readonly agent: string;
  readonly onChange: (picked: ModelSelection) => void;
  readonly disabled?: boolean;
  /** A changed number opens the picker. */
  readonly opens?: number;
}

export function ModelPicker({ model, effort, agent, onChange, disabled, opens = 0 }: Props) {
  const current = useStore(catalogStore);
  const owner = current?.agents.find((each) => each.name === agent);
  const effective = effectiveModel({ model, effort }, owner);
  const { button, isOpen, toggle, close } = usePickerOpening(opens);
  const words = effective.model === null ? "Model" : shortName(effective.model);
  return (
    <>
      <button
        ref={button}
        type="button"
        className="button picker"
        data-look="plain"
        disabled={disabled}
        aria-haspopup="dialog"
        aria-expanded={isOpen}
        aria-label={`Model: ${words}${effective.effort ? `, effort ${effortName(effective.effort)}` : ""}`}
        title={effective.model ?? "Model"}
        onClick={toggle}
      >
        <span className="picker-name">{words}</span>
        {effective.effort !== null && (
          <span className="picker-effort">{effortName(effective.effort)}</span>
        )}
        <ChevronDown size={14} aria-hidden="true" />
      </button>
      {isOpen && button.current !== null && (
        <Popover at={button.current} label="Model and effort" onClose={close}>
          <Panel
            own={owner?.model ?? null}
            ownEffort={owner?.effort ?? null}
            picked={{ model, effort }}
            onChange={onChange}
            onClose={close}
          />
        </Popover>
      )}
    </>
  );
}

/** Open state of the picker, which other components can open too. */
function usePickerOpening(opens: number): Floating {
  const opening = useFloating();
  const { open } = opening;
  // biome-ignore lint/correctness/useExhaustiveDependencies: only when it is asked for
  useEffect(() => {
    if (opens > 0) open();
  }, [opens]);
  return opening;
}

interface PanelProps {
  readonly own: string | null;
  readonly ownEffort: Effort | null;
  readonly picked: ModelSelection;
  readonly onChange: (picked: ModelSelection) => void;
  readonly onClose: () => void;
}

/** Loads the catalog each time it opens: keys and agents may have changed. */
function Panel(props: PanelProps) {
  const state = useCatalog();
  switch (state.is) {
    case "reading":
      return <p className="picker-empty">Loading the models…</p>;
    case "failed":
      return (
        <div className="picker-unread" role="alert">
          <p>{state.problem.message}</p>
          <Button busy={state.isTrying} onClick={state.again}>
            Try again
          </Button>
        </div>
      );
    case "read":
      return <Choices {...props} catalog={state.catalog} />;
  }
}

interface ChoicesProps extends PanelProps {
  readonly catalog: Catalog;
}

function Choices({ catalog, own, ownEffort, picked, onChange, onClose }: ChoicesProps) {
  const inUseNow = picked.model ?? own;
  const choose = (name: string | null) => {
    // The agent's default is stored as null, so that it follows changes of the agent.
    const model = name === own ? null : name;
    onChange({ model, effort: supportedEffort(catalog.models, name, picked.effort) });
    onClose();
  };
  const needKey = catalog.providers.filter((each) => !each.usable).length;
  return (
    <div className="picker-panel">
      <Finder catalog={catalog} own={own} current={inUseNow} onChoose={choose} />
      <div className="picker-part">
        <EffortChoice
          efforts={effortsOf(catalog.models, inUseNow)}
          own={ownEffort}
          chosen={picked.effort}
          onChoose={(effort) => onChange({ ...picked, effort })}
        />
      </div>
      {needKey > 0 && (
        <p className="picker-part picker-foot">
          <Link href="/settings/providers" onClick={onClose}>
            {needKey === 1 ? "1 provider" : `${needKey} providers`} can be set up
          </Link>
        </p>
      )}
    </div>
  );
}

interface FinderProps {
  readonly catalog: Catalog;
  readonly own: string | null;
  readonly current: string | null;
  readonly onChoose: (name: string | null) => void;
}

/** The focus stays in the search; the arrows move what Enter chooses. */
function Finder({ catalog, own, current, onChoose }: FinderProps) {
  const [query, setQuery] = useState("");
  const groups = useMemo(() => matchingGroups(catalog, own, query), [catalog, own, query]);
  const options = groups.flatMap(({ models }) => models);
  const [moved, setMoved] = useState<number | null>(null);
  const start = query === "" ? options.findIndex(({ name }) => name === current) : -1;
  const at = moved ?? (start >= 0 ? start : nextChoosable(options, -1, 1));
  const id = useId();
  const search = useRef<HTMLInputElement>(null);
  // Also after the loading state.
  useEffect(() => search.current?.focus(), []);
  const press = (event: React.KeyboardEvent) => {
    const chosen = options[at];
    if (event.key === "ArrowDown") setMoved(nextChoosable(options, at, 1));
    else if (event.key === "ArrowUp") setMoved(nextChoosable(options, at, -1));
    else if (event.key === "Enter" && chosen?.why === null) onChoose(chosen.name);
    else return;
    event.preventDefault();
  };
  return (
    <>
      <input
        ref={search}
        className="field picker-search"
        role="combobox"
        aria-label="Search models"
        aria-expanded="true"
        aria-controls={`${id}-list`}
        aria-activedescendant={at >= 0 ? `${id}-${at}` : undefined}
        autoComplete="off"
        placeholder="Search models"
        value={query}
        onKeyDown={press}
        onChange={(event) => {
          setQuery(event.target.value);
          setMoved(null);
        }}
      />
      <List
        id={id}
        groups={groups}
        options={options}
        at={at}
        current={current}
        onChoose={onChoose}
      />
      {options.length === 0 && <p className="picker-empty">No model matches.</p>}
    </>
  );
}

function matchingGroups(
  catalog: Catalog,
  own: string | null,
  query: string,
): readonly ModelGroup[] {
  const groups = modelGroups(catalog, own, query);
  const unlisted = unlistedModel(catalog, query);
  if (unlisted === null) return groups;
  const model = { name: unlisted, label: unlisted, window: null, why: null, isOwn: false };
  return [...groups, { provider: "Unlisted model, by its full name", models: [model] }];
}

interface ListProps {
  readonly id: string;
  readonly groups: readonly ModelGroup[];
  readonly options: readonly ModelOption[];
  readonly at: number;
  readonly current: string | null;
  readonly onChoose: (name: string | null) => void;
}

function List({ id, groups, options, at, current, onChoose }: ListProps) {
  useEffect(() => {
    document.getElementById(`${id}-${at}`)?.scrollIntoView({ block: "nearest" });
  }, [id, at]);
  return (
    <div id={`${id}-list`} className="picker-list" role="listbox" aria-label="Models">
      {groups.map(({ provider, models }) => (
        // biome-ignore lint/a11y/useSemanticElements: a fieldset is no part of a listbox
        <div key={provider} role="group" aria-label={provider}>
          <div className="picker-provider" aria-hidden="true">
            {provider}
          </div>
          {models.map((model) => {
            const place = options.indexOf(model);
            return (
              <Option
                key={model.name}
                id={`${id}-${place}`}
                model={model}
                isCurrent={model.name === current}
                isNext={place === at}
                onChoose={onChoose}
              />
            );
          })}
        </div>
      ))}
    </div>
  );
}

interface OptionProps {
  readonly id: string;
  readonly model: ModelOption;
  readonly isCurrent: boolean;
  readonly isNext: boolean;
  readonly onChoose: (name: string | null) => void;
}

function Option({ id, model, isCurrent, isNext, onChoose }: OptionProps) {
  const { name, label, window, why, isOwn } = model;
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: the search field has the keys of the list
    // biome-ignore lint/a11y/useFocusableInteractive: the focus stays in the search field
    <div
      id={id}
      className="picker-option"
      role="option"
      aria-selected={isCurrent}
      aria-disabled={why !== null}
      data-next={isNext || undefined}
      onClick={() => why === null && onChoose(name)}
    >
      <span className="picker-check">{isCurrent && <Check size={14} aria-hidden="true" />}</span>
      <span className="picker-label">
        {label}
        {why !== null && <small>{why}</small>}
      </span>
      {isOwn && <span className="picker-mark">agent's default</span>}
      {window !== null && <span className="picker-window">{count(window)}</span>}
    </div>
  );
}

interface EffortProps {
  readonly efforts: readonly Effort[] | null;
  readonly own: Effort | null;
  readonly chosen: Effort | null;
  readonly onChoose: (effort: Effort | null) => void;
}

function EffortChoice({ efforts, own, chosen, onChoose }: EffortProps) {
  const name = useId();
  if (efforts !== null && efforts.length === 0) {
    return <p className="picker-empty">This model has no effort setting.</p>;
  }
  const usual = own === null ? "Default" : `Default (${effortName(own).toLowerCase()})`;
  const levels = [null, ...(efforts ?? EFFORTS)];
  return (
    <fieldset className="picker-efforts">
      <legend>Effort</legend>
      <div>
        {levels.map((level) => (
          <label key={level}>
            <input
              type="radio"
              name={name}
              checked={chosen === level}
              onChange={() => onChoose(level)}
            />
            <span>{level === null ? usual : effortName(level)}</span>
          </label>
        ))}
      </div>
      {efforts === null && (
        <small>The levels of this model are unknown: the nearest one it supports is used.</small>
      )}
    </fieldset>
  );
}
