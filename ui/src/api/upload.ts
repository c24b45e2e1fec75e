/** A file upload with progress and retry, which `fetch` cannot report. */

import { newKey } from "./idempotency-key";
import { Problem, problemFrom, unreachable } from "./problem";
import { withRenewedSession } from "./request";
import { PREFIX } from "./schema";
import { sessionKey } from "./session-key";
import type { StoredFile } from "./types";

export interface UploadTask {
  /** Raises a `Problem`. */
  readonly done: Promise<StoredFile>;
  cancel(): void;
}

interface UploadOptions {
  readonly bytes: Blob;
  readonly name: string;
  readonly key: string;
  readonly onProgress: (share: number) => void;
}

/** Uploads a file. `onProgress`: called with the share uploaded, from 0 to 1. */
export function upload(bytes: Blob, name: string, onProgress: (share: number) => void): UploadTask {
  const options = { bytes, name, key: newKey(), onProgress };
  const stop = new AbortController();
  const done = withRenewedSession(() => runUpload(options, stop.signal));
  return { done, cancel: () => stop.abort() };
}

async function runUpload(options: UploadOptions, stop: AbortSignal): Promise<StoredFile> {
  const cancelled = new Problem("cancelled", 0, "The upload was cancelled.");
  // It may be cancelled between the first attempt and the second.
  if (stop.aborted) throw cancelled;
  const request = new XMLHttpRequest();
  const abort = () => request.abort();
  stop.addEventListener("abort", abort);
  try {
    await new Promise<void>((resolve, reject) => {
      request.onload = () => resolve();
      request.onerror = () =>
        reject(new Problem("broken", 0, "The upload failed: the connection was lost."));
      request.onabort = () => reject(cancelled);
      send(request, options);
    });
  } finally {
    stop.removeEventListener("abort", abort);
  }
  return storedFileOf(request);
}

function send(request: XMLHttpRequest, { bytes, name, key, onProgress }: UploadOptions): void {
  request.upload.onprogress = ({ loaded, total }) => onProgress(total > 0 ? loaded / total : 0);
  // The server limits the length of names; the end has the extension.
  request.open("POST", `${PREFIX}/files?name=${encodeURIComponent(name.slice(-255))}`);
  request.setRequestHeader("Accept", "application/json");
  request.setRequestHeader("Content-Type", bytes.type || "application/octet-stream");
  request.setRequestHeader("Idempotency-Key", key);
  const sessionHeader = sessionKey();
  if (sessionHeader !== null) request.setRequestHeader("X-Session-Key", sessionHeader);
  request.send(bytes);
}

function storedFileOf({ status, statusText, responseText }: XMLHttpRequest): StoredFile {
  const isOk = status >= 200 && status < 300;
  let body: unknown = null;
  try {
    body = JSON.parse(responseText);
  } catch {
    if (isOk) throw unreachable(); // the body is a proxy's
  }
  if (isOk) return body as StoredFile;
  throw problemFrom(body, status, statusText);
}
