/** The sidebar's notice that the connection is lost, with a countdown. */

import { WifiOff } from "lucide-react";
import { useEffect, useState } from "react";
import { outage, retryAll } from "../api/outage";
import { useStore } from "../reactive/store";
import type { ChatList } from "../store/chat-list";
import { IconButton } from "../ui/button";
import { useSecondsUntil } from "../ui/clock";

/** A line that is back before is not worth a word. */
const SHOWN_AFTER = 2_000;

/** Whether the line is broken, once that is worth saying. */
function useIsDisconnected(list: ChatList): boolean {
  const isBroken = useStore(list.stream.state, ({ is }) => is === "broken");
  const [isLong, setLong] = useState(false);
  useEffect(() => {
    if (!isBroken) return;
    const timer = setTimeout(() => setLong(true), SHOWN_AFTER);
    return () => {
      clearTimeout(timer);
      setLong(false);
    };
  }, [isBroken]);
  return isBroken && isLong;
}

/** That what is seen may be old, and when it is tried again. */
export function ConnectionStatus({ list }: { readonly list: ChatList }) {
  const isDisconnected = useIsDisconnected(list);
  return <div role="status">{isDisconnected && <Countdown />}</div>;
}

/** The same where there is no room for words. */
export function SmallConnectionStatus({ list }: { readonly list: ChatList }) {
  const isDisconnected = useIsDisconnected(list);
  return (
    <div role="status" className="sidebar-trouble-small">
      {isDisconnected && (
        <IconButton label="Reconnecting… Try now" onClick={retryAll}>
          <WifiOff size={17} />
        </IconButton>
      )}
    </div>
  );
}

function Countdown() {
  const seconds = useSecondsUntil(useStore(outage)?.retryAt ?? 0);
  return (
    <div className="sidebar-trouble">
      <WifiOff size={15} />
      <span>
        Reconnecting…
        {seconds > 0 && <span aria-hidden="true"> in {seconds} s</span>}
      </span>
      <button type="button" onClick={retryAll}>
        Try now
      </button>
    </div>
  );
}
