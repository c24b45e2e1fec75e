/** The diff of a call that edits or writes a file. Pure but for the diff library. */

import type { CallBlock } from "../../store/rows";
import { isPatch } from "../parse-diff";
import { isOver, stateOf } from "./call-state";
import { textOf } from "./parse-results";
import { objects, text, type Values } from "./partial-json";

export type Change =
  | { readonly is: "patch"; readonly text: string }
  /** To be compared: the file's previous content is unknown. */
  | { readonly is: "edits"; readonly path: string; readonly edits: readonly Edit[] }
  /** The edit was not made, or is not known yet. */
  | { readonly is: "none" };

export interface Edit {
  readonly old: string;
  readonly new: string;
}

const NONE: Change = { is: "none" };

/** The change of a call. A call that failed has none: a diff would suggest that it was made. */
export function changeOf(block: CallBlock, values: Values): Change {
  const state = stateOf(block);
  if (isOver(state) && state !== "done") return NONE;
  const resultText = textOf(block.result);
  if (isPatch(resultText)) return { is: "patch", text: resultText };
  const preview = block.live?.preview ?? "";
  if (!isOver(state) && isPatch(preview)) return { is: "patch", text: preview };
  return block.call.tool === "write_file"
    ? writeChange(values, state === "done", resultText)
    : editChange(values);
}

function writeChange(values: Values, isDone: boolean, resultText: string): Change {
  // The previous content is unknown: the lines may not be new.
  if (isDone && !resultText.includes("a new file")) return NONE;
  const content = text(values, "content");
  if (content === "") return NONE;
  return { is: "patch", text: newFileDiff(text(values, "path"), content) };
}

export function newFileDiff(path: string, content: string): string {
  const lines = content.replace(/\n$/, "").split("\n");
  const head = `--- /dev/null\n+++ b/${path}\n@@ -0,0 +1,${lines.length} @@\n`;
  return head + lines.map((line) => `+${line}`).join("\n");
}

function editChange(values: Values): Change {
  const edits = objects(values, "edits").map((edit) => ({
    old: text(edit, "old_text"),
    new: text(edit, "new_text"),
  }));
  return edits.length === 0 ? NONE : { is: "edits", path: text(values, "path"), edits };
}

/** A diff with one hunk per edit. Its line numbers start at 1: the position is unknown. */
export async function diffOfEdits(path: string, edits: readonly Edit[]): Promise<string> {
  const { createTwoFilesPatch } = await import("diff");
  return edits
    .map((edit) => {
      const patch = createTwoFilesPatch(
        `a/${path}`,
        `b/${path}`,
        withFinalNewline(edit.old),
        withFinalNewline(edit.new),
      );
      return patch.replace(/^=+\n/, "").trimEnd();
    })
    .join("\n");
}

/** Avoids "No newline at end of file" in the diff. */
function withFinalNewline(content: string): string {
  return content === "" || content.endsWith("\n") ? content : `${content}\n`;
}
