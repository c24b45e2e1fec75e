/** The sidebar's notice that the connection is lost, with a countdown. */

import { WifiOff } from "lucide-react";
import { useEffect, useState } from "react";
import { outage, retryAll } from "../api/outage";
import { useStore } from "../reactive/store";
import type { ChatList } from "../store/chat-list";
import { IconButton } from "../ui/button";
import { useSecondsUntil } from "../ui/clock";

/** Shorter interruptions are not shown. */
const SHOWN_AFTER = 2_000;

/** Whether the connection has been lost for a while. */
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

/** Notice that the connection is lost, with the time of the next attempt. */
export function ConnectionStatus({ list }: { readonly list: ChatList }) {
  const isDisconnected = useIsDisconnected(list);
  return <div role="status">{isDisconnected && <Countdown />}</div>;
}

/** The notice as an icon, for the collapsed sidebar. */
export function SmallConnectionStatus({ list }: { readonly list: ChatList }) {
  const isDisconnected = useIsDisconnected(list);
  return (
    <div role="status" className="sidebar-offline-small">
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
    <div className="sidebar-offline">
      <WifiOff size={15} />
      <span>
        Reconnecting
        {seconds > 0 ? <span aria-hidden="true"> in {seconds} s</span> : "…"}
      </span>
      <button type="button" onClick={retryAll}>
        Try now
      </button>
    </div>
  );
}
