/** Runs a slash command. */

import { exportTo, requestCommand } from "../chat/chat-actions";
import type { OpenChat } from "../store/open-chat";
import { attempt } from "../ui/notices";
import type { CommandName } from "./slash-commands";

export async function runSlashCommand(
  name: Exclude<CommandName, "help">,
  chat: OpenChat,
): Promise<void> {
  switch (name) {
    case "export markdown":
      return exportTo(chat.id, "markdown");
    case "export jsonl":
      return exportTo(chat.id, "jsonl");
    case "retry":
      await attempt(() => chat.retry());
      return;
    case "resume":
      await attempt(() => chat.resume());
      return;
    case "stop":
      await attempt(() => chat.interrupt());
      return;
    default:
      requestCommand(chat.id, name);
  }
}
