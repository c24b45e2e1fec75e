/** The content of a message: as the composer holds it and as the API takes it. Pure. */

import type { Message, Part, Prompt } from "../api/types";
import { messageText } from "../store/message-text";

export type GivenPart = Exclude<Prompt, string>[number];

/** How far a file is: on its way, there, or not to be had. */
export type Progress =
  | { readonly is: "uploading"; readonly share: number }
  | { readonly is: "done"; readonly part: GivenPart }
  | { readonly is: "failed"; readonly why: string };

export interface Attachment {
  readonly id: string;
  readonly name: string;
  readonly media: string;
  /** Size in bytes; null if unknown. */
  readonly size: number | null;
  readonly progress: Progress;
  /** Of a long paste: it may still be put into the message. */
  readonly text?: string;
}

export interface Content {
  readonly text: string;
  readonly files: readonly Attachment[];
}

export const NOTHING: Content = { text: "", files: [] };

export function isEmpty({ text, files }: Content): boolean {
  return text.trim() === "" && files.length === 0;
}

/** What keeps a message from being sent just now. */
export function hindrance({ files }: Content): "uploading" | "failed" | null {
  if (files.some(({ progress }) => progress.is === "failed")) return "failed";
  return files.some(({ progress }) => progress.is === "uploading") ? "uploading" : null;
}

/** Null when there is nothing to say. */
export function promptOf({ text, files }: Content): Prompt | null {
  const said = text.trimEnd();
  const parts = files.flatMap(({ progress }) => (progress.is === "done" ? [progress.part] : []));
  if (said.trim() === "") return parts.length > 0 ? parts : null;
  return parts.length > 0 ? [{ type: "text", text: said }, ...parts] : said;
}

const UPLOADED = "holdfast:";

/** Something that was said before, to be changed. */
export function contentOf({ parts }: Message): Content {
  const files = parts.flatMap((part, at) => {
    const attached = attachedOf(part, `said ${at}`);
    return attached === null ? [] : [attached];
  });
  return { text: messageText(parts), files };
}

function attachedOf(part: Part, id: string): Attachment | null {
  if (part.type === "source") {
    const given: GivenPart = { type: "source", url: part.url, title: part.title ?? null };
    const name = part.title ?? part.url;
    return { id, name, media: "", size: null, progress: { is: "done", part: given } };
  }
  if (part.type !== "file") return null;
  const { name, media_type: media, ref, data } = part;
  const given = uploadedId(ref ?? null);
  const progress: Progress = {
    is: "done",
    part:
      given !== null
        ? { type: "file", file: given }
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

/** What a browser shows as a picture and the server serves as one. */
export function pictureOf({ media, progress }: Attachment): string | null {
  if (progress.is !== "done" || progress.part.type !== "file" || !progress.part.file) return null;
  if (!/^image\/(png|jpeg|gif|webp|avif)$/.test(media)) return null;
  return `/api/v1/files/${encodeURIComponent(progress.part.file)}`;
}

/** What a message is about, in one line. */
export function lineOf(message: Message): string {
  return messageText(message.parts).replace(/\s+/g, " ").trim();
}

export function filesIn({ parts }: Message): number {
  return parts.filter((part) => part.type === "file" || part.type === "source").length;
}
