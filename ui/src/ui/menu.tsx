/** Menus, on the browser's popover. */

import {
  type KeyboardEvent,
  type ReactNode,
  useId,
  useLayoutEffect,
  useRef,
  useState,
} from "react";
import { returnFocus } from "./focus";
import { type Anchor, placeBeside } from "./position";

export type Item = Choice | "line";

interface Choice {
  readonly name: string;
  readonly onChoose: () => void;
  readonly icon?: ReactNode;
  /** A key, or why it cannot be chosen. */
  readonly hint?: string;
  /** A description, in a line below the name. */
  readonly about?: string;
  readonly look?: "danger";
  readonly disabled?: boolean;
  /** For a choice among several: whether it is the current one. */
  readonly chosen?: boolean;
}

interface Props {
  readonly items: readonly Item[];
  /** Where it opens: beside this element, or at a place on the screen. */
  readonly at: Anchor;
  readonly label: string;
  readonly onClose: () => void;
}

/** A menu on the native popover, which closes with Escape or a click outside. */
export function Menu({ items, at, label, onClose }: Props) {
  const menu = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const element = menu.current;
    if (element === null) return;
    element.showPopover();
    placeBeside(element, at);
    const chosen = element.querySelector<HTMLElement>('[aria-checked="true"]');
    (chosen ?? itemsOf(element)[0])?.focus();
  }, [at]);
  const close = () => {
    if (at instanceof HTMLElement) returnFocus(at);
    onClose();
  };
  return (
    <div
      ref={menu}
      className="menu"
      role="menu"
      aria-label={label}
      popover="auto"
      tabIndex={-1}
      onToggle={(event) => event.newState === "closed" && close()}
      onKeyDown={(event) => move(event, close)}
    >
      {items.map((item, index) =>
        item === "line" ? (
          // biome-ignore lint/suspicious/noArrayIndexKey: lines have nothing else
          <hr key={index} className="menu-line" />
        ) : (
          <MenuItem key={item.name} item={item} onClose={close} />
        ),
      )}
    </div>
  );
}

interface MenuItemProps {
  readonly item: Choice;
  readonly onClose: () => void;
}

function MenuItem({ item, onClose }: MenuItemProps) {
  const { name, about, hint, icon, look, disabled, chosen } = item;
  const role =
    chosen === undefined ? { role: "menuitem" } : { role: "menuitemradio", "aria-checked": chosen };
  return (
    <button
      type="button"
      className="menu-item"
      {...role}
      aria-disabled={disabled || undefined}
      data-look={look}
      tabIndex={-1}
      onClick={() => {
        if (disabled) return;
        onClose();
        item.onChoose();
      }}
    >
      {icon}
      <span>
        {name}
        {about && <span className="menu-about">{about}</span>}
      </span>
      {hint && <span className="menu-hint">{hint}</span>}
    </button>
  );
}

interface ButtonProps {
  readonly label: string;
  readonly items: readonly Item[];
  readonly children: ReactNode;
  readonly className?: string;
}

/** A button that opens a menu. */
export function MenuButton({ label, items, children, className }: ButtonProps) {
  const [open, setOpen] = useState(false);
  const button = useRef<HTMLButtonElement>(null);
  const id = useId();
  return (
    <>
      <button
        ref={button}
        id={id}
        type="button"
        className={className ?? "button"}
        data-look="plain"
        data-icon={className === undefined ? "small" : undefined}
        aria-label={label}
        title={label}
        aria-haspopup="menu"
        aria-expanded={open}
        onClick={() => setOpen(!open)}
      >
        {children}
      </button>
      {open && button.current && (
        <Menu items={items} at={button.current} label={label} onClose={() => setOpen(false)} />
      )}
    </>
  );
}

function itemsOf(menu: HTMLElement): HTMLElement[] {
  return [...menu.querySelectorAll<HTMLElement>(".menu-item")];
}

function move(event: KeyboardEvent<HTMLDivElement>, close: () => void): void {
  const items = itemsOf(event.currentTarget);
  const at = items.indexOf(document.activeElement as HTMLElement);
  const to = target(event.key, at, items);
  if (event.key === "Tab") close();
  else if (to !== undefined) {
    event.preventDefault();
    to.focus();
  }
}

function target(key: string, at: number, items: readonly HTMLElement[]): HTMLElement | undefined {
  const count = items.length;
  if (key === "ArrowDown") return items[(at + 1) % count];
  if (key === "ArrowUp") return items[(at - 1 + count) % count];
  if (key === "Home") return items[0];
  if (key === "End") return items[count - 1];
  if (key.length !== 1) return undefined;
  const others = [...items.slice(at + 1), ...items.slice(0, at + 1)];
  return others.find((item) => item.textContent.toLowerCase().startsWith(key.toLowerCase()));
}
