/** Hooks for reordering the queue: optimistic order, and dragging. */

import { type PointerEvent, useRef, useState } from "react";
import type { Queued } from "../api/types";
import { useStore } from "../reactive/store";
import type { OpenChat } from "../store/open-chat";
import { attempt } from "../ui/notices";
import { indexAt, reordered } from "./queue-order";

/** An order shown before the server has confirmed it, until the server sends another queue. */
interface OptimisticQueue {
  readonly of: readonly Queued[];
  readonly queue: readonly Queued[];
}

/** The queue as it will be when the server agrees; as it was, when it refuses. */
export function useQueue(chat: OpenChat) {
  const serverQueue = useStore(chat.transcript, (transcript) => transcript.queue);
  const [optimistic, setOptimistic] = useState<OptimisticQueue | null>(null);
  const queue = optimistic?.of === serverQueue ? optimistic.queue : serverQueue;
  const show = (next: readonly Queued[]) => setOptimistic({ of: serverQueue, queue: next });
  const commit = async (next: readonly Queued[], what: () => Promise<void>) => {
    show(next);
    const done = await attempt(what);
    if (!done) setOptimistic(null);
    return done;
  };
  const saveOrder = (next: readonly Queued[]) =>
    commit(next, () => chat.reorder(next.map((each) => each.id)));
  return {
    queue,
    show,
    back: () => setOptimistic(null),
    place: saveOrder,
    move: (id: string, to: number) => {
      const next = reordered(queue, id, to);
      if (next !== queue) void saveOrder(next);
    },
    remove: (id: string) =>
      commit(
        queue.filter((each) => each.id !== id),
        () => chat.removeQueued(id),
      ),
  };
}

type QueueState = ReturnType<typeof useQueue>;

/** Rows that are dragged by their grip: the order follows the pointer, and is sent at the end. */
export function useDrag({ queue, show, back, place }: QueueState) {
  const list = useRef<HTMLOListElement>(null);
  const [dragged, setDragged] = useState<string | null>(null);
  const from = useRef<readonly Queued[]>([]);
  const end = () => setDragged(null);
  const grip = (id: string) => ({
    onPointerDown: (event: PointerEvent<HTMLElement>) => {
      if (event.button !== 0) return;
      event.currentTarget.setPointerCapture(event.pointerId);
      from.current = queue;
      setDragged(id);
    },
    onPointerMove: (event: PointerEvent) => {
      if (dragged !== id || list.current === null) return;
      const next = reordered(queue, id, indexAt(ends(list.current), event.clientY));
      if (next !== queue) show(next);
    },
    onPointerUp: () => {
      if (dragged !== id) return;
      end();
      const isSame = queue.every((each, at) => each.id === from.current[at]?.id);
      if (isSame) back();
      else void place(queue);
    },
    onPointerCancel: () => {
      end();
      back();
    },
  });
  return { list, dragged, grip };
}

function ends(list: HTMLElement): readonly number[] {
  return [...list.children].map((row) => row.getBoundingClientRect().bottom);
}
