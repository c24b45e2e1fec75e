import type { Part } from "../api/types";

/** The words of a message, without what goes along with them. */
export function saidIn(parts: readonly Part[]): string {
  return parts.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("\n\n");
}
