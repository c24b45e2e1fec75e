/** Icons of the timeline, from one SVG sprite. */

import "./icons.css";

export type IconName =
  | "check"
  | "copy"
  | "pencil"
  | "git-fork"
  | "chevron-right"
  | "circle-alert"
  | "circle-x"
  | "ban"
  | "square"
  | "circle-question-mark"
  | "circle-slash"
  | "timer-off"
  | "hand"
  | "hourglass"
  | "file-text"
  | "folder-tree"
  | "search"
  | "file-plus"
  | "file-pen"
  | "message-circle-question-mark"
  | "square-terminal"
  | "user-round"
  | "wrench"
  | "brain"
  | "fold-vertical"
  | "info"
  | "link-2"
  | "image-off"
  | "external-link"
  | "download";

interface Props {
  readonly name: IconName;
  /** Pixels. */
  readonly size: 12 | 13 | 14 | 15;
}

/** A decorative icon beside a text. */
export function Icon({ name, size }: Props) {
  return <span className="icon" data-icon={name} data-size={size} aria-hidden />;
}
