/** URLs that the browser requests by itself, without headers: they carry the download key. Pure. */

import { PREFIX } from "./schema";

/** `key`: of the session, as `GET /me` gives it. Anything but an address of the API stays. */
export function withDownloadKey(href: string, key: string | null | undefined): string {
  if (!key || !href.startsWith(`${PREFIX}/`)) return href;
  return `${href}${href.includes("?") ? "&" : "?"}download_key=${encodeURIComponent(key)}`;
}
