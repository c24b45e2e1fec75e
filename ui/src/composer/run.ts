/** Does what a command of the composer says. */

import { ask, exportTo } from "../chat/commands";
import { attempt } from "../parts/notices";
import type { OpenChat } from "../store/chat";
import type { Name } from "./commands";

export async function run(name: Exclude<Name, "help">, chat: OpenChat): Promise<void> {
  switch (name) {
    case "export markdown":
      return exportTo(chat.id, "markdown");
    case "export jsonl":
      return exportTo(chat.id, "jsonl");
    case "retry":
      await attempt(() => chat.retry());
      return;
    case "stop":
      await attempt(() => chat.interrupt());
      return;
    default:
      ask(chat.id, name);
  }
}
