/** A scrollable region that the keyboard can reach. */

import { type ReactNode, type RefObject, useEffect, useRef } from "react";
import { onResize } from "./on-resize";
import { whenIdle, whenVisible } from "./when-visible";

interface Props {
  readonly label: string;
  readonly className?: string;
  readonly children: ReactNode;
  /** Content is growing: scrolls to its end until the user scrolls away. */
  readonly follow?: boolean;
}

/** A scrollable region. It is focusable only while its content overflows. */
export function ScrollRegion({ label, className, children, follow = false }: Props) {
  const outer = useRef<HTMLDivElement>(null);
  useScrollable(outer);
  useFollowEnd(outer, follow);
  return (
    // biome-ignore lint/a11y/useSemanticElements: it groups no fields
    <div ref={outer} className={className} role="group" aria-label={label} data-scroller="">
      <div className="scroller-inner">{children}</div>
    </div>
  );
}

/** Measures overflow when the element comes near, when its content changes and on resize. */
function useScrollable(outer: RefObject<HTMLElement | null>): void {
  const isNear = useRef(false);
  useEffect(() => {
    const element = outer.current;
    if (element === null) return;
    const look = () => {
      isNear.current = true;
      measure(element);
    };
    return isNear.current ? whenIdle(look) : whenVisible(element, look);
  });
  useEffect(() => {
    const element = outer.current;
    return element === null ? undefined : onResize(element, () => measure(element));
  }, [outer]);
}

function measure(element: HTMLElement): void {
  const scrolls =
    element.scrollWidth > element.clientWidth + 1 ||
    element.scrollHeight > element.clientHeight + 1;
  if (scrolls) element.tabIndex = 0;
  else element.removeAttribute("tabindex");
}

function useFollowEnd(outer: RefObject<HTMLElement | null>, follow: boolean): void {
  useEffect(() => {
    const element = outer.current;
    const inner = element?.firstElementChild;
    if (!follow || element == null || inner == null) return;
    let isAtEnd = true;
    const look = () => {
      isAtEnd = element.scrollHeight - element.scrollTop - element.clientHeight < 8;
    };
    const sized = new ResizeObserver(() => {
      if (isAtEnd) element.scrollTop = element.scrollHeight;
    });
    sized.observe(inner);
    element.addEventListener("scroll", look, { passive: true });
    return () => {
      sized.disconnect();
      element.removeEventListener("scroll", look);
    };
  }, [outer, follow]);
}
