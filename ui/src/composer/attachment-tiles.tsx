/** Tiles of the files attached to a message, with upload progress. */

import { File as FileIcon, FileText, Link, RotateCw, TextCursorInput, X } from "lucide-react";
import { useRef } from "react";
import { withDownloadKey } from "../api/download";
import { currentUser } from "../api/request";
import { useStore } from "../reactive/store";
import { IconButton } from "../ui/button";
import { useFocusFallback } from "../ui/focus";
import { bytes } from "../ui/format";
import type { Draft } from "./draft";
import { type Attachment, pictureOf } from "./draft-content";

/** The attached files as tiles. */
export function AttachmentTiles({ draft }: { readonly draft: Draft }) {
  const files = useStore(draft.content, (content) => content.files);
  if (files.length === 0) return null;
  return (
    <ul className="composer-tiles" aria-label="Attached files">
      {files.map((file) => (
        <Tile key={file.id} file={file} draft={draft} />
      ))}
    </ul>
  );
}

function Tile({ file, draft }: { readonly file: Attachment; readonly draft: Draft }) {
  const { id, name, progress, text } = file;
  const tile = useRef<HTMLLIElement>(null);
  useFocusFallback(tile, lastButtonBeside);
  return (
    <li ref={tile} className="composer-tile" data-is={progress.is}>
      <Thumbnail file={file} />
      <span className="composer-tile-words">
        <span className="composer-tile-name" title={name}>
          {name}
        </span>
        <UploadState file={file} />
      </span>
      {progress.is === "failed" && (
        <IconButton label={`Retry the upload of ${name}`} small onClick={() => draft.retry(id)}>
          <RotateCw size={14} />
        </IconButton>
      )}
      {text !== undefined && (
        <IconButton label="Insert into the message" small onClick={() => draft.inline(id)}>
          <TextCursorInput size={14} />
        </IconButton>
      )}
      <IconButton label={`Remove ${name}`} small onClick={() => draft.remove(id)}>
        <X size={14} />
      </IconButton>
    </li>
  );
}

function lastButtonBeside(tile: HTMLElement): HTMLElement | null | undefined {
  const beside = tile.nextElementSibling ?? tile.previousElementSibling;
  return beside?.querySelector<HTMLElement>(":scope > button:last-child");
}

function Thumbnail({ file }: { readonly file: Attachment }) {
  const picture = pictureOf(file);
  const key = useStore(currentUser, (me) => me?.download_key);
  if (picture !== null) {
    const address = withDownloadKey(picture, key);
    return <img className="composer-tile-picture" src={address} alt="" />;
  }
  const isLink = file.progress.is === "done" && file.progress.part.type === "source";
  const Icon = isLink ? Link : file.media.startsWith("text/") ? FileText : FileIcon;
  return (
    <span className="composer-tile-picture">
      <Icon size={16} />
    </span>
  );
}

function UploadState({ file: { name, size, progress } }: { readonly file: Attachment }) {
  if (progress.is === "failed") {
    return (
      <span className="composer-tile-why" role="alert">
        {progress.why}
      </span>
    );
  }
  if (progress.is === "uploading") {
    return <progress aria-label={`Upload of ${name}`} value={progress.share} max={1} />;
  }
  return size === null ? null : <span className="composer-tile-size">{bytes(size)}</span>;
}
