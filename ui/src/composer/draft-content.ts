/** The content of a message: as the composer holds it and as the API takes it. Pure. */

import type { Message, Part, Prompt } from "../api/types";
import { messageText } from "../store/message-text";

export type PromptPart = Exclude<Prompt, string>[number];

/** State of an upload. */
export type Progress =
  | { readonly is: "uploading"; readonly share: number }
  | { readonly is: "done"; readonly part: PromptPart }
  | { readonly is: "failed"; readonly why: string };

export interface Attachment {
  readonly id: string;
  readonly name: string;
  readonly media: string;
  /** Size in bytes; null if unknown. */
  readonly size: number | null;
  readonly progress: Progress;
  /** Text of a long paste, which can still be inserted into the message. */
  readonly text?: string;
}

export interface DraftContent {
  readonly text: string;
  readonly files: readonly Attachment[];
}

export const EMPTY: DraftContent = { text: "", files: [] };

export function isEmpty({ text, files }: DraftContent): boolean {
  return text.trim() === "" && files.length === 0;
}

/** Why a message cannot be sent yet: an upload is running or has failed. */
export function sendBlocker({ files }: DraftContent): "uploading" | "failed" | null {
  if (files.some(({ progress }) => progress.is === "failed")) return "failed";
  return files.some(({ progress }) => progress.is === "uploading") ? "uploading" : null;
}

/** The prompt for the API; null if the draft is empty. */
export function promptOf({ text, files }: DraftContent): Prompt | null {
  const trimmed = text.trimEnd();
  const parts = files.flatMap(({ progress }) => (progress.is === "done" ? [progress.part] : []));
  if (trimmed.trim() === "") return parts.length > 0 ? parts : null;
  return parts.length > 0 ? [{ type: "text", text: trimmed }, ...parts] : trimmed;
}

const UPLOADED = "holdfast:";

/** The content of a sent message, for editing. */
export function contentOf({ parts }: Message): DraftContent {
  const files = parts.flatMap((part, at) => {
    const attachment = attachmentOf(part, `said ${at}`);
    return attachment === null ? [] : [attachment];
  });
  return { text: messageText(parts), files };
}

function attachmentOf(part: Part, id: string): Attachment | null {
  if (part.type === "source") {
    const source: PromptPart = { type: "source", url: part.url, title: part.title ?? null };
    const name = part.title ?? part.url;
    return { id, name, media: "", size: null, progress: { is: "done", part: source } };
  }
  if (part.type !== "file") return null;
  const { name, media_type: media, ref, data } = part;
  const fileId = uploadedId(ref ?? null);
  const progress: Progress = {
    is: "done",
    part:
      fileId !== null
        ? { type: "file", file: fileId }
        : {
            type: "file",
            url: ref ?? null,
            data: data ?? null,
            media_type: media,
            name: name ?? null,
          },
  };
  return { id, name: name ?? media, media, size: null, progress };
}

function uploadedId(ref: string | null): string | null {
  return ref?.startsWith(UPLOADED) ? ref.slice(UPLOADED.length) : null;
}

/** URL of an attachment that can be previewed as an image; null otherwise. */
export function pictureOf({ media, progress }: Attachment): string | null {
  if (progress.is !== "done" || progress.part.type !== "file" || !progress.part.file) return null;
  if (!/^image\/(png|jpeg|gif|webp|avif)$/.test(media)) return null;
  return `/api/v1/files/${encodeURIComponent(progress.part.file)}`;
}

/** The text of a message on one line. */
export function oneLineOf(message: Message): string {
  return messageText(message.parts).replace(/\s+/g, " ").trim();
}

export function countFiles({ parts }: Message): number {
  return parts.filter((part) => part.type === "file" || part.type === "source").length;
}
