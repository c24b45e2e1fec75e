/**
 * A draft message: stored in this browser until it is sent, with the files already uploaded.
 *
 * Tabs share it. The tab with the focus writes; other tabs adopt the stored text without writing,
 * so that two tabs do not trigger each other.
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

/** The draft of a name. One object per name: two would overwrite each other's text. */
export function draftNamed(name: string, send: UploadFunction = upload): Draft {
  const existing = uploading.get(name) ?? onScreen.get(name);
  return existing?.isMine ? existing : new Draft(name, undefined, send);
}

export class Draft {
  readonly content: Store<DraftContent>;
  /** Idempotency keys for what is made of this draft. Dropped when it is emptied. */
  readonly keys: IdempotencyKeys;
  /** Null for a draft that is not stored. */
  readonly #name: string | null;
  /** Id of the user who owns the draft. */
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
      // The page was closed during the upload.
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

  /** Attaches a long pasted text as a file. */
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

  /** Moves the text of an attached paste into the message. */
  inline(id: string): void {
    const text = this.content.get().files.find((file) => file.id === id)?.text;
    if (text === undefined) return;
    this.remove(id);
    const before = this.content.get().text;
    this.type(before === "" ? text : `${before.trimEnd()}\n\n${text}`);
  }

  /** Puts content in front of the current content. */
  prepend({ text, files }: DraftContent): void {
    const now = this.content.get();
    const together = [text, now.text].filter((each) => each.trim() !== "").join("\n\n");
    const named = files.map((file) => ({ ...file, id: newKey() }));
    this.#set({ text: together, files: [...named, ...now.files] });
  }

  /** Removes the content that was sent. Text and files added since stay. */
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
      // Not stored: it changes too often.
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
    if (this.#running.get(id) !== running) return; // removed or replaced meanwhile
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
    // Stored separately, so that a key press does not rewrite long pasted texts.
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

/** The message part of an uploaded file. The name is shown until the server has the message. */
function partOf({ id, media_type, name }: StoredFile): PromptPart {
  return { type: "file", file: id, media_type, name };
}

function withProgress(id: string, progress: Progress): (content: DraftContent) => DraftContent {
  return ({ text, files }) => ({
    text,
    files: files.map((file) => (file.id === id ? { ...file, progress } : file)),
  });
}

/** The text after what was sent; all of it if it no longer starts with that. */
function textAfter(before: string, now: string): string {
  const sent = before.trimEnd();
  return now.startsWith(sent) ? now.slice(sent.length).trimStart() : now;
}

/** Files that survive a reload. */
function storable(files: readonly Attachment[]): readonly Attachment[] {
  return files.filter(({ progress, text }) => progress.is === "done" || text !== undefined);
}

function blobOf(text: string): Blob {
  return new Blob([text], { type: "text/plain" });
}

const drafts = new WeakMap<OpenChat, Draft>();

/** The draft that all parts of a chat's screen share. */
export function draftOf(chat: OpenChat): Draft {
  const existing = drafts.get(chat);
  if (existing !== undefined) return existing;
  const draft = draftNamed(chat.id);
  drafts.set(chat, draft);
  return draft;
}
