/** Keyboard shortcuts: hooks that bind them, and the dialog that lists them. */

import { useEffect, useEffectEvent, useState } from "react";
import { isPressed, keysOf } from "./key-combinations";
import { Dialog } from "./ui/dialog";

/** All shortcuts, by context: combinations and descriptions. */
const SHORTCUTS: Readonly<Record<string, readonly (readonly [readonly string[], string])[]>> = {
  Anywhere: [
    [["Ctrl+K"], "Search, or run a command"],
    [["Alt+N"], "New chat"],
    [["Alt+I"], "Inbox"],
    [["Alt+↑", "Alt+↓"], "Previous or next chat in the list"],
    [["Alt+B"], "Show or hide the list"],
    [["?"], "Keyboard shortcuts"],
  ],
  "In the message field": [
    [["Enter"], "Send, or queue while the agent works"],
    [["Shift+Enter"], "New line"],
    [["Ctrl+Enter"], "While the agent works: deliver before its next step"],
    [["Ctrl+Shift+Enter"], "While the agent works: interrupt it and deliver now"],
    [["Escape"], "Close the menu, cancel the edit, stop the agent"],
    [["↑"], "In an empty field: your earlier messages"],
    [["/"], "At the start of a message: commands"],
  ],
  "In an approval card": [
    [["A"], "Allow once"],
    [["D"], "Deny"],
    [["J", "K"], "In the inbox: next or previous card"],
  ],
  "In the chat list": [
    [["↑", "↓"], "Previous or next row"],
    [["Enter"], "Open the chat"],
    [["F2"], "Rename"],
    [["Delete"], "Delete, after confirmation"],
    [["Shift+F10"], "Open its menu"],
    [["←", "→"], "Collapse or expand a section"],
  ],
};

export function useDialogState(): { isOpen: boolean; open: () => void; close: () => void } {
  const [isOpen, set] = useState(false);
  return { isOpen, open: () => set(true), close: () => set(false) };
}

/** Calls back when a combination is pressed anywhere except in a dialog. */
export function useShortcut(combination: string, act: () => void): void {
  const press = useEffectEvent((event: KeyboardEvent) => {
    if (event.defaultPrevented || !isPressed(event, combination)) return;
    if (combination.length === 1 && isTyping(event.target)) return;
    if (document.querySelector("dialog[open]") !== null) return;
    event.preventDefault();
    act();
  });
  useEffect(() => {
    const listen = (event: KeyboardEvent) => press(event);
    addEventListener("keydown", listen);
    return () => removeEventListener("keydown", listen);
  }, []);
}

export function useShortcutsKey() {
  const opening = useDialogState();
  useShortcut("?", opening.open);
  return opening;
}

/** Whether keys go into a text field. */
export function isTyping(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement && target.matches("input, textarea, select, [contenteditable]")
  );
}

/** A key combination with this platform's labels. */
export function Keys({ of }: { readonly of: string }) {
  return (
    <span className="keys-combination">
      {keysOf(of).map((key) => (
        <kbd key={key}>{key}</kbd>
      ))}
    </span>
  );
}

export function Shortcuts({ onClose }: { readonly onClose: () => void }) {
  return (
    <Dialog title="Keyboard shortcuts" onClose={onClose} wide>
      <KeyTables />
    </Dialog>
  );
}

function KeyTables() {
  return Object.entries(SHORTCUTS).map(([where, keys]) => (
    <section key={where} className="keys-part">
      <h3>{where}</h3>
      <dl className="keys">
        {keys.map(([combinations, what]) => (
          <div key={what}>
            <dt>
              {combinations.map((each) => (
                <Keys key={each} of={each} />
              ))}
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
    </section>
  ));
}
