/** The drop zone for files, over everything but the sidebar. */

import { useEffect, useRef, useState } from "react";
import { createPortal } from "react-dom";
import { notify } from "../ui/notices";

interface Props {
  readonly onFiles: (files: readonly File[]) => void;
}

/** Accepts files dropped anywhere outside the chat list, with a hint while they hover. */
export function DropZone({ onFiles }: Props) {
  const [over, setOver] = useState(false);
  const take = useRef(onFiles);
  take.current = onFiles;
  useEffect(() => {
    const isOverMain = ({ target }: DragEvent) => mainOf()?.contains(target as Node) ?? false;
    const hover = (event: DragEvent) => {
      if (!hasFiles(event)) return;
      // Without this the browser opens a file in place of the page, also one that missed.
      event.preventDefault();
      setOver(isOverMain(event));
    };
    const leave = (event: DragEvent) => {
      if (event.relatedTarget === null) setOver(false);
    };
    const drop = (event: DragEvent) => {
      setOver(false);
      if (!hasFiles(event)) return;
      event.preventDefault();
      if (isOverMain(event)) take.current(filesIn(event.dataTransfer));
    };
    addEventListener("dragover", hover);
    addEventListener("dragleave", leave);
    addEventListener("drop", drop);
    return () => {
      removeEventListener("dragover", hover);
      removeEventListener("dragleave", leave);
      removeEventListener("drop", drop);
    };
  }, []);
  const main = mainOf();
  if (!over || main === null) return null;
  return createPortal(<div className="composer-drop">Drop files to attach them</div>, main);
}

/** Not there yet while the page is drawn for the first time. */
function mainOf(): HTMLElement | null {
  return document.getElementById("main");
}

function hasFiles({ dataTransfer }: DragEvent): boolean {
  return dataTransfer?.types.includes("Files") ?? false;
}

function filesIn(data: DataTransfer | null): readonly File[] {
  const items = [...(data?.items ?? [])].filter((item) => item.kind === "file");
  const files = items.filter((item) => !item.webkitGetAsEntry?.()?.isDirectory);
  if (files.length < items.length)
    notify("Folders cannot be attached. Drop the files instead.", true);
  return files.map((item) => item.getAsFile()).filter((file) => file !== null);
}
