/** Buttons. */

import type { ComponentProps, MouseEvent, ReactNode } from "react";

type Look = "usual" | "main" | "danger" | "plain";

interface Common extends ComponentProps<"button"> {
  readonly look?: Look;
  /** It does already what it is for. Unlike one that is disabled, it keeps the focus. */
  readonly busy?: boolean;
}

export function Button({ look = "usual", ...rest }: Common) {
  return <button type="button" className="button" data-look={look} {...pressable(rest)} />;
}

interface IconButtonProps extends Common {
  /** What it does, for those who see the picture and those who do not. */
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

/** Nor does it send the form that it is in. */
function preventClick(event: MouseEvent): void {
  event.preventDefault();
}
