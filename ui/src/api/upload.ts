/** A file upload with progress and retry, which `fetch` cannot report. */

import { newKey } from "./idempotency-key";
import { Problem, problemFrom, unreachable } from "./problem";
import { renewing } from "./request";
import { PREFIX } from "./schema";
import { sessionKey } from "./session-key";
import type { StoredFile } from "./types";

export interface Uploading {
  /** Raises a `Problem`. */
  readonly done: Promise<StoredFile>;
  cancel(): void;
}

interface Given {
  readonly bytes: Blob;
  readonly name: string;
  readonly key: string;
  readonly onProgress: (share: number) => void;
}

/** `onProgress`: with the share that is there, from 0 to 1. */
export function upload(bytes: Blob, name: string, onProgress: (share: number) => void): Uploading {
  const given = { bytes, name, key: newKey(), onProgress };
  const stop = new AbortController();
  const done = renewing(() => sent(given, stop.signal));
  return { done, cancel: () => stop.abort() };
}

async function sent(given: Given, stop: AbortSignal): Promise<StoredFile> {
  const cancelled = new Problem("cancelled", 0, "The upload was cancelled.");
  // It may be stopped between the first time and the second.
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
      send(request, given);
    });
  } finally {
    stop.removeEventListener("abort", abort);
  }
  return answerOf(request);
}

function send(request: XMLHttpRequest, { bytes, name, key, onProgress }: Given): void {
  request.upload.onprogress = ({ loaded, total }) => onProgress(total > 0 ? loaded / total : 0);
  // The server takes no longer name: the end of it says what it is.
  request.open("POST", `${PREFIX}/files?name=${encodeURIComponent(name.slice(-255))}`);
  request.setRequestHeader("Accept", "application/json");
  request.setRequestHeader("Content-Type", bytes.type || "application/octet-stream");
  request.setRequestHeader("Idempotency-Key", key);
  const shown = sessionKey();
  if (shown !== null) request.setRequestHeader("X-Session-Key", shown);
  request.send(bytes);
}

function answerOf({ status, statusText, responseText }: XMLHttpRequest): StoredFile {
  const isOk = status >= 200 && status < 300;
  let body: unknown = null;
  try {
    body = JSON.parse(responseText);
  } catch {
    if (isOk) throw unreachable(); // something in between speaks for the server
  }
  if (isOk) return body as StoredFile;
  throw problemFrom(body, status, statusText);
}
