/** A line that expands to a text. */

import { type ReactNode, useId } from "react";
import { Icon } from "./icon";
import { Markdown } from "./markdown";
import { ScrollRegion } from "./scroller";

interface Props {
  readonly className: string;
  readonly icon: ReactNode;
  readonly words: string;
  /** Accessible name of the text. */
  readonly label: string;
  readonly text: string;
  readonly growing: boolean;
  readonly isOpen: boolean;
  readonly onToggle: (isOpen: boolean) => void;
}

export function Collapsible(props: Props) {
  const { className, icon, words, label, text, growing, isOpen, onToggle } = props;
  const id = useId();
  return (
    <div className={className} data-growing={growing || undefined}>
      <button
        type="button"
        className="call-line"
        aria-expanded={isOpen}
        aria-controls={id}
        onClick={() => onToggle(!isOpen)}
      >
        <span className="call-icon" aria-hidden>
          {icon}
        </span>
        <span className="call-label">{words}</span>
        <Icon name="chevron-right" size={14} />
      </button>
      <div id={id} className="fold-body" hidden={!isOpen}>
        {isOpen && (
          <ScrollRegion className="fold-text" label={label} follow={growing}>
            <Markdown text={text} growing={growing} />
          </ScrollRegion>
        )}
      </div>
    </div>
  );
}
