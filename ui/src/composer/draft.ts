/**
 * A draft message: stored in this browser until it is sent, with the files already uploaded.
 *
 * Tabs share it. The one that is written in writes; another takes over what it finds and never
 * writes because of that, so that the two do not answer each other for ever.
 */

import { IdempotencyKeys, newKey } from "../api/idempotency-key";
import { Problem } from "../api/problem";
import type { StoredFile } from "../api/types";
import { type UploadTask, upload } from "../api/upload";
import { onStoredElsewhere, readStored, storageUser, writeStored } from "../reactive/local-storage";
import { Store } from "../reactive/store";
import type { OpenChat } from "../store/open-chat";
import {
  type Attachment,
  type DraftContent,
  EMPTY,
  isEmpty,
  type Progress,
  type PromptPart,
} from "./draft-content";
import { pastedName } from "./paste";

type UploadFunction = typeof upload;

/** Drafts with running uploads, by name: a returning user finds them as they were. */
const uploading = new Map<string, Draft>();
/** Drafts on the screen, by name, so that content is added to the one that is visible. */
const onScreen = new Map<string, Draft>();

/** What is about to be said under a name. Two at a time would write over what the other keeps. */
export function draftNamed(name: string, send: UploadFunction = upload): Draft {
  const existing = uploading.get(name) ?? onScreen.get(name);
  return existing?.isMine ? existing : new Draft(name, undefined, send);
}

export class Draft {
  readonly content: Store<DraftContent>;
  /** Idempotency keys for what is made of this draft. Dropped when it is emptied. */
  readonly keys: IdempotencyKeys;
  /** Null for one that is not kept. */
  readonly #name: string | null;
  /** Who writes it. */
  readonly #user = storageUser();
  readonly #upload: UploadFunction;
  readonly #bytes = new Map<string, Blob>();
  readonly #running = new Map<string, UploadTask>();

  constructor(name: string | null, content?: DraftContent, send: UploadFunction = upload) {
    this.#name = name;
    this.#upload = send;
    this.content = new Store(content ?? this.#readStored());
    this.keys = new IdempotencyKeys(name === null ? null : `draft.${name}.key`);
    for (const { id, progress, text } of this.content.get().files) {
      // The page went away while it was on its way.
      if (progress.is !== "done" && text !== undefined) this.#begin(id, blobOf(text));
    }
  }

  /** Whether it belongs to the current user: another one may have signed in since. */
  get isMine(): boolean {
    return this.#user === storageUser();
  }

  /** On the screen, where it follows other tabs, until the returned function is called. */
  follow(): () => void {
    const name = this.#name;
    if (name === null) return () => {};
    onScreen.set(name, this);
    const unsubscribe = onStoredElsewhere(`draft.${name}`, () => {
      if (!document.hasFocus() && this.#running.size === 0) this.content.set(this.#readStored());
    });
    return () => {
      unsubscribe();
      if (onScreen.get(name) === this) onScreen.delete(name);
    };
  }

  type(text: string): void {
    this.#set({ ...this.content.get(), text });
  }

  add(files: readonly File[]): void {
    for (const file of files) this.#attach(file, file.name || "file", file.type);
  }

  /** A long text, beside the message. */
  addText(text: string): void {
    const name = pastedName(this.content.get().files.map((file) => file.name));
    this.#attach(blobOf(text), name, "text/plain", text);
  }

  retry(id: string): void {
    const bytes = this.#bytes.get(id);
    if (bytes !== undefined) this.#begin(id, bytes);
  }

  remove(id: string): void {
    this.#running.get(id)?.cancel();
    this.#forgetUpload(id);
    this.#bytes.delete(id);
    this.#files((files) => files.filter((file) => file.id !== id));
  }

  /** A text that was put beside the message, into it. */
  inline(id: string): void {
    const text = this.content.get().files.find((file) => file.id === id)?.text;
    if (text === undefined) return;
    this.remove(id);
    const before = this.content.get().text;
    this.type(before === "" ? text : `${before.trimEnd()}\n\n${text}`);
  }

  /** Puts something back in front of what is there. */
  prepend({ text, files }: DraftContent): void {
    const now = this.content.get();
    const together = [text, now.text].filter((each) => each.trim() !== "").join("\n\n");
    const named = files.map((file) => ({ ...file, id: newKey() }));
    this.#set({ text: together, files: [...named, ...now.files] });
  }

  /** Takes out what was sent, as it was then. What came since stays. */
  removeSent(sent: DraftContent): void {
    const { text, files } = this.content.get();
    const sentIds = new Set(sent.files.map(({ id }) => id));
    this.keys.done();
    this.#set({
      text: textAfter(sent.text, text),
      files: files.filter(({ id }) => !sentIds.has(id)),
    });
  }

  clear(): void {
    this.stop();
    this.#bytes.clear();
    this.#set(EMPTY);
  }

  /** Cancels the running uploads. */
  stop(): void {
    for (const [id, each] of this.#running) {
      each.cancel();
      this.#forgetUpload(id);
    }
  }

  #attach(bytes: Blob, name: string, media: string, text?: string): void {
    const id = newKey();
    const progress: Progress = { is: "uploading", share: 0 };
    const one: Attachment = { id, name, media, size: bytes.size, progress };
    this.#files((files) => [...files, text === undefined ? one : { ...one, text }]);
    this.#begin(id, bytes);
  }

  #begin(id: string, bytes: Blob): void {
    this.#bytes.set(id, bytes);
    this.#progress(id, { is: "uploading", share: 0 });
    const name = this.content.get().files.find((file) => file.id === id)?.name ?? "file";
    const running = this.#upload(bytes, name, (share) => {
      // Not worth keeping.
      if (this.#running.has(id)) this.content.change(withProgress(id, { is: "uploading", share }));
    });
    this.#running.set(id, running);
    if (this.#name !== null) uploading.set(this.#name, this);
    running.done.then(
      (file) => this.#onUploadEnd(id, running, { is: "done", part: partOf(file) }),
      (error) => this.#onUploadEnd(id, running, { is: "failed", why: Problem.of(error).message }),
    );
  }

  #onUploadEnd(id: string, running: UploadTask, progress: Progress): void {
    if (this.#running.get(id) !== running) return; // taken away meanwhile
    this.#forgetUpload(id);
    if (progress.is === "done") this.#bytes.delete(id);
    this.#progress(id, progress);
  }

  #forgetUpload(id: string): void {
    this.#running.delete(id);
    if (this.#name === null || this.#running.size > 0) return;
    if (uploading.get(this.#name) === this) uploading.delete(this.#name);
  }

  #progress(id: string, progress: Progress): void {
    this.#set(withProgress(id, progress)(this.content.get()));
  }

  #files(by: (files: readonly Attachment[]) => readonly Attachment[]): void {
    const now = this.content.get();
    this.#set({ ...now, files: by(now.files) });
  }

  #set(content: DraftContent): void {
    const before = this.content.get();
    this.content.set(content);
    if (this.#name === null || !this.isMine) return;
    if (isEmpty(content)) this.keys.done();
    // Apart, so that a key that is pressed does not write long texts anew.
    if (content.text !== before.text) writeStored(`draft.${this.#name}`, content.text, "");
    if (content.files !== before.files) {
      writeStored(`draft.${this.#name}.files`, storable(content.files), []);
    }
  }

  #readStored(): DraftContent {
    if (this.#name === null) return EMPTY;
    const text = readStored(`draft.${this.#name}`, "");
    return { text, files: readStored<readonly Attachment[]>(`draft.${this.#name}.files`, []) };
  }
}

/** The server knows its name: it is for those who see the message before it is there. */
function partOf({ id, media_type, name }: StoredFile): PromptPart {
  return { type: "file", file: id, media_type, name };
}

function withProgress(id: string, progress: Progress): (content: DraftContent) => DraftContent {
  return ({ text, files }) => ({
    text,
    files: files.map((file) => (file.id === id ? { ...file, progress } : file)),
  });
}

/** Behind a text; all of it where that is not its beginning any more. */
function textAfter(before: string, now: string): string {
  const sent = before.trimEnd();
  return now.startsWith(sent) ? now.slice(sent.length).trimStart() : now;
}

/** What can be had again after a reload. */
function storable(files: readonly Attachment[]): readonly Attachment[] {
  return files.filter(({ progress, text }) => progress.is === "done" || text !== undefined);
}

function blobOf(text: string): Blob {
  return new Blob([text], { type: "text/plain" });
}

const drafts = new WeakMap<OpenChat, Draft>();

/** The one that all parts of the screen of a chat work on. */
export function draftOf(chat: OpenChat): Draft {
  const existing = drafts.get(chat);
  if (existing !== undefined) return existing;
  const draft = draftNamed(chat.id);
  drafts.set(chat, draft);
  return draft;
}
