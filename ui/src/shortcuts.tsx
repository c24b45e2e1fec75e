/** Keyboard shortcuts: hooks that bind them, and the dialog that lists them. */

import { useEffect, useEffectEvent, useState } from "react";
import { isPressed, keysOf } from "./key-combinations";
import { Dialog } from "./ui/dialog";

/** Every key that the page knows: combinations, and what they do. */
const SHORTCUTS: Readonly<Record<string, readonly (readonly [readonly string[], string])[]>> = {
  Anywhere: [
    [["Ctrl+K"], "Search, or run a command"],
    [["Alt+N"], "New chat"],
    [["Alt+I"], "Inbox"],
    [["Alt+↑", "Alt+↓"], "Previous or next chat in the list"],
    [["Alt+B"], "Show or hide the list"],
    [["?"], "Keyboard shortcuts"],
  ],
  "In a message": [
    [["Enter"], "Send; while the agent works: queue"],
    [["Shift+Enter"], "A new line"],
    [["Ctrl+Enter"], "While the agent works: steer, before its next step"],
    [["Ctrl+Shift+Enter"], "While the agent works: interrupt it and send"],
    [["Escape"], "Close the menu, cancel the edit, stop the agent"],
    [["↑"], "In an empty message: your earlier messages"],
    [["/"], "At the start: commands"],
  ],
  "On an approval": [
    [["A"], "Allow it once"],
    [["D"], "Deny it"],
    [["J", "K"], "In the inbox: next or previous"],
  ],
  "In the list": [
    [["↑", "↓"], "Previous or next row"],
    [["Enter"], "Open the chat"],
    [["F2"], "Rename it"],
    [["Delete"], "Delete it, after confirmation"],
    [["Shift+F10"], "Its menu"],
    [["←", "→"], "Collapse or expand a section"],
  ],
};

export function useDialogState(): { isOpen: boolean; open: () => void; close: () => void } {
  const [isOpen, set] = useState(false);
  return { isOpen, open: () => set(true), close: () => set(false) };
}

/** Do something when a combination is pressed, anywhere on the page but in a dialog. */
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

/** Whether a key that is pressed there is a letter of a text. */
export function isTyping(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement && target.matches("input, textarea, select, [contenteditable]")
  );
}

/** One combination, as it is written on this keyboard. */
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
