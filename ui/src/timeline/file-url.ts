/** URLs of attached files, and whether they can be shown inline. Pure. */

import { PREFIX } from "../api/schema";
import type { File } from "../api/types";
import { safeLink } from "./safe-url";

export interface FileUrl {
  /** URL of the content; null if there is none. */
  readonly href: string | null;
  /** The page may show it inline. */
  readonly isPicture: boolean;
  /** On another host. */
  readonly isRemote: boolean;
}

/** Image types that cannot run scripts. SVG can. */
const PICTURES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp", "image/avif"]);

const OURS = "holdfast:";

export function fileUrlOf(file: File, chatId: string): FileUrl {
  const { ref, data, media_type } = file;
  const isPicture = PICTURES.has(media_type);
  if (data != null) {
    // Other types are downloaded, not opened by the browser.
    const type = isPicture ? media_type : "application/octet-stream";
    return { href: `data:${type};base64,${data}`, isPicture, isRemote: false };
  }
  if (ref?.startsWith(OURS)) {
    const id = encodeURIComponent(ref.slice(OURS.length));
    const href = `${PREFIX}/chats/${encodeURIComponent(chatId)}/files/${id}`;
    return { href, isPicture, isRemote: false };
  }
  return { href: safeLink(ref ?? ""), isPicture: false, isRemote: true };
}

export function fileName(file: File): string {
  return file.name || (file.media_type.startsWith("image/") ? "Picture" : "File");
}
