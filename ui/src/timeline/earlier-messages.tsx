/** Loads earlier messages when the top of the timeline comes near. */

import { type RefObject, useEffect, useRef } from "react";
import { useStore } from "../reactive/store";
import type { OpenChat } from "../store/open-chat";
import { isLoaded } from "../store/transcript";
import { Button } from "../ui/button";
import { onNearEnd } from "../ui/infinite-scroll";

interface Props {
  readonly chat: OpenChat;
  readonly scroller: RefObject<HTMLElement | null>;
}

export function EarlierView({ chat, scroller }: Props) {
  const more = useStore(chat.transcript, ({ moreBefore }) => moreBefore);
  const earlier = useStore(chat.earlier);
  const mark = useRef<HTMLDivElement>(null);
  // Before the newest messages are loaded, the top is near by mistake.
  const isWhole = useStore(chat.transcript, isLoaded);
  const isReady = isWhole && more !== null && earlier.is === "rest";
  // Observed again after each page: the top may still be near.
  // biome-ignore lint/correctness/useExhaustiveDependencies: a page changes `more`
  useEffect(() => {
    if (!isReady || mark.current === null) return;
    const sight = { root: scroller.current, rootMargin: "900px 0px 0px 0px" };
    return onNearEnd(mark.current, sight, () => void chat.readEarlier());
  }, [chat, scroller, isReady, more]);
  return (
    <div ref={mark} className="earlier" data-more={more !== null || undefined}>
      {earlier.is === "reading" && (
        <span>
          <span className="spinner" aria-hidden /> Loading earlier messages…
        </span>
      )}
      {earlier.is === "failed" && (
        <span role="alert">
          {earlier.problem.message}{" "}
          <Button onClick={() => void chat.readEarlier()}>Try again</Button>
        </span>
      )}
    </div>
  );
}
