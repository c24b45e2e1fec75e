/** Runs a slash command. */

import { ask, exportTo } from "../chat/chat-actions";
import type { OpenChat } from "../store/open-chat";
import { attempt } from "../ui/notices";
import type { Name } from "./slash-commands";

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
