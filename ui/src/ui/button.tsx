/** Buttons. */

import type { ComponentProps, MouseEvent, ReactNode } from "react";

type Look = "usual" | "main" | "danger" | "plain";

interface Common extends ComponentProps<"button"> {
  readonly look?: Look;
  /** The action is running. Unlike a disabled button, a busy one keeps the focus. */
  readonly busy?: boolean;
}

export function Button({ look = "usual", ...rest }: Common) {
  return <button type="button" className="button" data-look={look} {...pressable(rest)} />;
}

interface IconButtonProps extends Common {
  /** The accessible name and the tooltip. */
  readonly label: string;
  readonly small?: boolean;
  readonly children: ReactNode;
}

export function IconButton({ label, small, look = "plain", ...rest }: IconButtonProps) {
  return (
    <button
      type="button"
      className="button"
      data-look={look}
      data-icon={small ? "small" : ""}
      aria-label={label}
      title={label}
      {...pressable(rest)}
    />
  );
}

function pressable({ busy = false, ...rest }: Omit<Common, "look">): ComponentProps<"button"> {
  return busy ? { ...rest, "aria-disabled": true, onClick: preventClick } : rest;
}

/** Keeps a busy submit button from submitting its form. */
function preventClick(event: MouseEvent): void {
  event.preventDefault();
}
