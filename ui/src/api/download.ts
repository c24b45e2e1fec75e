/** URLs that the browser requests by itself, without headers: they carry the download key. Pure. */

import { PREFIX } from "./schema";

/** Adds the session's download key (from `GET /me`) to a URL of the API; leaves other URLs. */
export function withDownloadKey(href: string, key: string | null | undefined): string {
  if (!key || !href.startsWith(`${PREFIX}/`)) return href;
  return `${href}${href.includes("?") ? "&" : "?"}download_key=${encodeURIComponent(key)}`;
}
