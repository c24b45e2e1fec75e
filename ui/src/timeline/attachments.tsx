/** Attachments of a message: images inline, other files as downloads. */

import { useState } from "react";
import { withDownloadKey } from "../api/download";
import { currentUser } from "../api/request";
import type { File } from "../api/types";
import { useStore } from "../reactive/store";
import { type FileUrl, fileName, fileUrlOf } from "./file-url";
import { Icon } from "./icon";

interface Props {
  readonly chatId: string;
  readonly files: readonly File[];
}

export function Attachments({ chatId, files }: Props) {
  const key = useStore(currentUser, (me) => me?.download_key);
  if (files.length === 0) return null;
  return (
    <ul className="attachments" aria-label="Files">
      {files.map((file, at) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: the same file may be there twice
        <li key={at}>
          <Attachment file={file} address={withKey(fileUrlOf(file, chatId), key)} />
        </li>
      ))}
    </ul>
  );
}

function withKey(address: FileUrl, key: string | null | undefined): FileUrl {
  const { href } = address;
  return href === null ? address : { ...address, href: withDownloadKey(href, key) };
}

interface AttachmentProps {
  readonly file: File;
  readonly address: FileUrl;
}

function Attachment({ file, address }: AttachmentProps) {
  const [isBroken, setBroken] = useState(false);
  const name = fileName(file);
  if (address.href === null || !address.isPicture || isBroken) {
    return <Chip name={name} address={address} isBroken={isBroken} />;
  }
  // Browsers do not open data URLs in a tab: they are downloaded.
  const way = address.href.startsWith("data:")
    ? { download: name }
    : { target: "_blank", rel: "noopener" };
  return (
    <a className="attachment-picture" href={address.href} {...way}>
      <img src={address.href} alt={name} loading="lazy" onError={() => setBroken(true)} />
    </a>
  );
}

interface ChipProps {
  readonly name: string;
  readonly address: FileUrl;
  readonly isBroken: boolean;
}

function Chip({ name, address, isBroken }: ChipProps) {
  const { href, isRemote } = address;
  if (href === null || isBroken) {
    return (
      <span className="attachment" title="Cannot be shown">
        <Icon name="image-off" size={14} />
        <span>{name}</span>
      </span>
    );
  }
  return isRemote ? (
    <a className="attachment" href={href} target="_blank" rel="noopener noreferrer nofollow">
      <Icon name="external-link" size={14} />
      <span>{name}</span>
    </a>
  ) : (
    <a className="attachment" href={href} download={name}>
      <Icon name="file-text" size={14} />
      <span>{name}</span>
      <Icon name="download" size={13} />
    </a>
  );
}
