/** Freezes the order of rows while the pointer or the keyboard is on the list. */

import { type RefObject, useEffect, useRef, useState } from "react";
import type { ChatList } from "../store/chat-list";
import { type FrozenOrder, freezeOrder } from "./sections";

/** Milliseconds without a key after which the order is released. */
const KEYS_REST = 10_000;

export function useFrozenOrder(
  list: ChatList,
  region: RefObject<HTMLElement | null>,
): FrozenOrder | null {
  const [frozen, setFrozen] = useState<FrozenOrder | null>(null);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => {
    const element = region.current;
    if (element === null) return;
    let isPointed = false;
    const begin = () => {
      clearTimeout(timer.current);
      setFrozen((now) => now ?? freezeOrder(list.chats.get().byId.values(), Date.now()));
    };
    const end = () => {
      clearTimeout(timer.current);
      if (!isPointed) setFrozen(null);
    };
    const enter = () => {
      isPointed = true;
      begin();
    };
    const leave = () => {
      isPointed = false;
      end();
    };
    const press = () => {
      begin();
      timer.current = setTimeout(end, KEYS_REST);
    };
    element.addEventListener("pointerenter", enter);
    element.addEventListener("pointerleave", leave);
    element.addEventListener("pointercancel", leave);
    element.addEventListener("keydown", press);
    return () => {
      leave();
      element.removeEventListener("pointerenter", enter);
      element.removeEventListener("pointerleave", leave);
      element.removeEventListener("pointercancel", leave);
      element.removeEventListener("keydown", press);
    };
  }, [list, region]);
  return frozen;
}
