/** The filter button of the sidebar and its popover. */

import { ListFilter, X } from "lucide-react";
import { useId, useRef, useState } from "react";
import { useStore } from "../reactive/store";
import { catalogStore } from "../store/catalog";
import { Button, IconButton } from "../ui/button";
import { Popover } from "../ui/popover";
import {
  countFilters,
  type Filters,
  NO_FILTERS,
  STATUS_FILTERS,
  type StatusFilter,
} from "./filters";
import { useFilters } from "./visible-chats";

/** Which chats the list shows. */
export function FilterButton() {
  const [filters, change] = useFilters();
  const [isOpen, setOpen] = useState(false);
  const button = useRef<HTMLSpanElement>(null);
  const many = countFilters(filters);
  return (
    <span ref={button} className="sidebar-filter-button" data-on={many > 0 || undefined}>
      <IconButton
        label={many > 0 ? `Filter the list: ${many} active` : "Filter the list"}
        aria-expanded={isOpen}
        aria-haspopup="dialog"
        onClick={() => setOpen(!isOpen)}
      >
        <ListFilter size={17} />
      </IconButton>
      {isOpen && button.current?.firstElementChild instanceof HTMLElement && (
        <Popover
          label="Filter the list"
          at={button.current.firstElementChild}
          onClose={() => setOpen(false)}
        >
          <FilterForm filters={filters} onChange={change} />
        </Popover>
      )}
    </span>
  );
}

/** The active filters, so that a missing chat is explained. */
export function FilterLine() {
  const [filters, change] = useFilters();
  if (countFilters(filters) === 0) return null;
  const { archived, status, agent } = filters;
  const names = [
    archived && "Archived",
    status && STATUS_FILTERS[status],
    agent && `Agent ${agent}`,
  ];
  return (
    <div className="sidebar-filter-line">
      <span>{names.filter(Boolean).join(", ")}</span>
      <IconButton label="Show all chats" small onClick={() => change(NO_FILTERS)}>
        <X size={14} />
      </IconButton>
    </div>
  );
}

interface FormProps {
  readonly filters: Filters;
  readonly onChange: (filters: Filters) => void;
}

function FilterForm({ filters, onChange }: FormProps) {
  const agents = useStore(catalogStore, (now) => now?.agents) ?? [];
  const name = useId();
  return (
    <form className="sidebar-filter" onSubmit={(event) => event.preventDefault()}>
      <fieldset>
        <legend>Show</legend>
        {[null, ...(Object.keys(STATUS_FILTERS) as StatusFilter[])].map((doing) => (
          <label key={doing}>
            <input
              type="radio"
              name={name}
              checked={filters.status === doing}
              onChange={() => onChange({ ...filters, status: doing })}
            />
            {doing === null ? "All" : STATUS_FILTERS[doing]}
          </label>
        ))}
      </fieldset>
      {(agents.length > 1 || filters.agent !== null) && (
        <label className="sidebar-filter-agent">
          Agent
          <select
            className="field"
            value={filters.agent ?? ""}
            onChange={(event) => onChange({ ...filters, agent: event.target.value || null })}
          >
            <option value="">Any</option>
            {agents.map((agent) => (
              <option key={agent.name}>{agent.name}</option>
            ))}
          </select>
        </label>
      )}
      <label className="sidebar-filter-archived">
        <input
          type="checkbox"
          checked={filters.archived}
          onChange={(event) => onChange({ ...filters, archived: event.target.checked })}
        />
        Archived chats only
      </label>
      {countFilters(filters) > 0 && (
        <Button onClick={() => onChange(NO_FILTERS)}>Show all chats</Button>
      )}
    </form>
  );
}
