/** The text of a message, without its attachments. */

import type { Part } from "../api/types";

export function messageText(parts: readonly Part[]): string {
  return parts.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("\n\n");
}
