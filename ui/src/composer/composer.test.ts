import { describe, expect, test } from "vitest";
import type { Message, Pending, Queued, Snapshot, Stored } from "../api/types";
import { snapshot } from "../store/fixtures";
import { EMPTY } from "../store/transcript";
import { countInvisible, escapeInvisible, invisibleWarning } from "../ui/invisible";
import { deliveryModes, deliveryOf, hasChoice, waitingHint } from "./delivery";
import {
  type Attachment,
  contentOf,
  isEmpty,
  pictureOf,
  promptOf,
  sendBlocker,
} from "./draft-content";
import { countBelow, editWarning } from "./edit-warning";
import { earlierPrompts, nextIndex } from "./input-history";
import { isLong, pasteAction, pastedName } from "./paste";
import { indexAt, range, reordered } from "./queue-order";
import {
  COMMANDS,
  commandQuery,
  commandStatusOf,
  matchingCommands,
  whyUnavailable,
  wrappedIndex,
} from "./slash-commands";

const names = (query: string) => matchingCommands(query).map((command) => command.name);
const command = (name: string) => {
  const found = COMMANDS.find((each) => each.name === name);
  if (found === undefined) throw new Error(name);
  return found;
};

describe("commands", () => {
  test("a slash alone lists all commands", () => {
    expect(names("")).toEqual(COMMANDS.map((each) => each.name));
  });

  test("a match at the start of a name ranks above one at the start of a word in it", () => {
    expect(names("m")).toEqual(["model", "export markdown"]);
  });

  test("commands are found by words of their description", () => {
    expect(names("summ")).toEqual(["compact"]);
    expect(names("title")).toEqual(["rename"]);
  });

  test("a text that matches no command is a message", () => {
    expect(names("tmp is full")).toEqual([]);
    expect(commandQuery("/etc/passwd is odd")).toBeNull();
    expect(commandQuery("/compact\nplease")).toBeNull();
    expect(commandQuery(" /compact")).toBeNull();
  });

  test("matching ignores case", () => {
    expect(commandQuery("/Export M")).toBe("export m");
    expect(names("export m")).toEqual(["export markdown"]);
  });

  test("an unavailable command says when it is available", () => {
    expect(whyUnavailable(command("retry"), "idle")).toBe("after an error");
    expect(whyUnavailable(command("retry"), "error")).toBeNull();
    expect(whyUnavailable(command("stop"), "idle")).toBe("while the agent is working");
    expect(whyUnavailable(command("compact"), "running")).toBe("when the turn is over");
    expect(whyUnavailable(command("rename"), null)).toBeNull();
    expect(whyUnavailable(command("resume"), "idle")).toBe("after a limit");
    expect(whyUnavailable(command("resume"), "limit")).toBeNull();
    expect(whyUnavailable(command("compact"), "limit")).toBeNull();
  });

  test("a turn that ended at a limit is told apart from an idle chat", () => {
    const ended = (reason: "limit" | "stop") => snapshot({ outcome: { reason, steps: 1 } });
    expect(commandStatusOf("idle", ended("limit"))).toBe("limit");
    expect(commandStatusOf("idle", ended("stop"))).toBe("idle");
    expect(commandStatusOf("running", ended("limit"))).toBe("running");
    expect(commandStatusOf(null, null)).toBeNull();
  });

  test("the arrow keys wrap around", () => {
    expect([wrappedIndex(2, 1, 3), wrappedIndex(0, -1, 3), wrappedIndex(0, 1, 0)]).toEqual([
      0, 2, 0,
    ]);
  });
});

describe("keys", () => {
  const key = (more: object) => ({
    key: "Enter",
    ctrlKey: false,
    metaKey: false,
    shiftKey: false,
    altKey: false,
    ...more,
  });

  test("Enter queues, with Ctrl or Cmd it steers, with Shift too it interrupts", () => {
    expect(deliveryOf(key({}), false)).toBe("queue");
    expect(deliveryOf(key({ ctrlKey: true }), false)).toBe("steer");
    expect(deliveryOf(key({ metaKey: true }), false)).toBe("steer");
    expect(deliveryOf(key({ ctrlKey: true, shiftKey: true }), false)).toBe("interrupt");
  });

  test("Shift with Enter, and Enter on a phone, write a new line", () => {
    expect(deliveryOf(key({ shiftKey: true }), false)).toBeNull();
    expect(deliveryOf(key({}), true)).toBeNull();
  });

  test("each delivery mode has a description, and another one while the agent waits", () => {
    const running = deliveryModes("running").map((way) => way.about);
    const waits = deliveryModes("requires_action").map((way) => way.about);
    expect(new Set([...running, ...waits]).size).toBe(6);
  });

  test("delivery modes are offered only during a turn", () => {
    const statuses = ["idle", "error", "running", "interrupting", "requires_action"] as const;
    expect(statuses.map(hasChoice)).toEqual([false, false, true, true, true]);
  });

  test("the hint says until when a message is queued", () => {
    const waitingFor = (kind: string) => waitingHint("requires_action", [{ kind } as Pending]);
    expect(waitingFor("approval")).toContain("until you have answered");
    expect(waitingFor("child")).toContain("the subagents");
    expect(waitingHint("running", [])).toBeNull();
  });
});

describe("a paste", () => {
  test("of ten lines or a thousand characters is long", () => {
    expect(isLong(`${"a\n".repeat(8)}a`)).toBe(false);
    expect(isLong(`${"a\n".repeat(9)}a`)).toBe(true);
    expect(isLong("a".repeat(999))).toBe(false);
    expect(isLong("a".repeat(1_000))).toBe(true);
  });

  test("that is long is attached, unless it is pasted as plain text", () => {
    expect(pasteAction("a".repeat(1_000), 0, false)).toBe("attach");
    expect(pasteAction("a".repeat(1_000), 0, true)).toBe("inline");
    expect(pasteAction("short", 0, false)).toBe("inline");
  });

  test("with a text and its picture is the text", () => {
    expect(pasteAction("a\tb", 1, false)).toBe("inline");
    expect(pasteAction("", 2, false)).toBe("files");
  });

  test("gets an unused file name", () => {
    expect(pastedName([])).toBe("pasted.txt");
    expect(pastedName(["pasted.txt", "pasted-2.txt"])).toBe("pasted-3.txt");
  });
});

const done = (id: string, media = "image/png"): Attachment => {
  const part = { type: "file", file: id } as const;
  return { id, name: id, media, size: 1, progress: { is: "done", part } };
};

describe("a prompt", () => {
  test("of text alone is a string without trailing white space", () => {
    expect(promptOf({ text: "  hello \n\n", files: [] })).toBe("  hello");
  });

  test("with files is a list of parts, the text first", () => {
    expect(promptOf({ text: "see", files: [done("f")] })).toEqual([
      { type: "text", text: "see" },
      { type: "file", file: "f" },
    ]);
  });

  test("of files alone has no text part", () => {
    expect(promptOf({ text: " \n", files: [done("f")] })).toEqual([{ type: "file", file: "f" }]);
  });

  test("of an empty draft is null", () => {
    expect(promptOf({ text: " ", files: [] })).toBeNull();
    expect(isEmpty({ text: "\n", files: [] })).toBe(true);
  });

  test("is blocked by running and failed uploads", () => {
    const way: Attachment = { ...done("f"), progress: { is: "uploading", share: 0.5 } };
    const failed: Attachment = { ...done("g"), progress: { is: "failed", why: "no" } };
    expect(sendBlocker({ text: "", files: [done("f")] })).toBeNull();
    expect(sendBlocker({ text: "", files: [way] })).toBe("uploading");
    expect(sendBlocker({ text: "", files: [way, failed] })).toBe("failed");
  });

  test("made from a sent message is the same prompt again", () => {
    const message: Message = {
      role: "user",
      kind: "prompt",
      parts: [
        { type: "text", text: "see" },
        { type: "file", media_type: "image/png", name: "a.png", ref: "holdfast:f1" },
        { type: "file", media_type: "text/csv", ref: "https://example.com/x.csv" },
        { type: "source", url: "https://example.com/", title: "Example" },
      ],
    };
    expect(promptOf(contentOf(message))).toEqual([
      { type: "text", text: "see" },
      { type: "file", file: "f1" },
      {
        type: "file",
        url: "https://example.com/x.csv",
        data: null,
        media_type: "text/csv",
        name: null,
      },
      { type: "source", url: "https://example.com/", title: "Example" },
    ]);
  });

  test("previews only safe image types", () => {
    expect(pictureOf(done("f"))).toBe("/api/v1/files/f");
    expect(pictureOf(done("f", "image/svg+xml"))).toBeNull();
  });
});

describe("invisible characters", () => {
  test("are counted apart from direction characters", () => {
    expect(countInvisible("a\u200Bb\u{E0041}\u{E0042}")).toEqual({ hidden: 3, directional: 0 });
    expect(countInvisible("a\u202Eb\u2066c")).toEqual({ hidden: 0, directional: 2 });
  });

  test("lead to a warning", () => {
    expect(invisibleWarning("a\u200Bb")).toContain("1 invisible character");
    expect(invisibleWarning("a\u202Eb\u200Bc\u200B")).toContain("2 invisible characters and 1");
  });

  test("are not counted in emoji and in scripts that need them", () => {
    const family = "\u{1F468}\u200D\u{1F469}\u200D\u{1F467}";
    const scotland = "\u{1F3F4}\u{E0067}\u{E0062}\u{E0073}\u{E0063}\u{E0074}\u{E007F}";
    const heart = "\u2764\uFE0F";
    const persian = "\u0645\u06CC\u200C\u062E\u0648\u0627\u0647\u0645";
    for (const text of [family, scotland, heart, persian, "1\uFE0F\u20E3", "a\tb\r\nc"]) {
      expect(invisibleWarning(text)).toBeNull();
      expect(escapeInvisible(text)).toBe(text);
    }
  });

  test("are shown as escapes", () => {
    expect(escapeInvisible("a\u202Eb\u{E0041}")).toBe("a\\u202eb\\u{e0041}");
  });
});

const queued = (id: string, deliver: Queued["deliver"] = "queue"): Queued => ({
  id,
  deliver,
  message: { role: "user", kind: "prompt", parts: [] },
  position: 0,
});
const ids = (queue: readonly Queued[]) => queue.map((each) => each.id).join("");

describe("the order of the queue", () => {
  const queue = [queued("s", "steer"), queued("a"), queued("b"), queued("c")];

  test("a message moves to an index", () => {
    expect(ids(reordered(queue, "c", 1))).toBe("scab");
    expect(ids(reordered(queue, "a", 2))).toBe("sbac");
  });

  test("a message stays among those of its delivery mode", () => {
    expect(ids(reordered(queue, "b", 0))).toBe("sbac");
    expect(reordered(queue, "s", 3)).toBe(queue);
    expect(range(queue, "b")).toEqual([1, 3]);
  });

  test("an unknown message moves nothing", () => {
    expect(reordered(queue, "x", 0)).toBe(queue);
  });

  test("the index is that of the row under the pointer, or the nearest", () => {
    expect([-5, 5, 15, 99].map((height) => indexAt([10, 20, 30], height))).toEqual([0, 0, 1, 2]);
  });
});

const stored = (number: number, kind: Message["kind"], text = ""): Stored => ({
  number,
  revision: 1,
  message: { role: "user", kind, parts: [{ type: "text", text }] },
  author: null,
  created_at: 0,
});

describe("input history", () => {
  test("has the newest prompt first, without answers and repetitions", () => {
    const messages = [
      stored(1, "prompt", "one"),
      stored(2, "answer", "yes"),
      stored(3, "prompt", "two"),
      stored(4, "prompt", "two"),
    ];
    expect(earlierPrompts(messages)).toEqual(["two", "one"]);
  });

  test("goes back to the oldest prompt and forward to the draft", () => {
    expect(nextIndex(null, "back", 2)).toBe(0);
    expect(nextIndex(0, "back", 2)).toBe(1);
    expect(nextIndex(1, "back", 2)).toBe(1);
    expect(nextIndex(1, "forth", 2)).toBe(0);
    expect(nextIndex(0, "forth", 2)).toBeNull();
  });
});

describe("an edit", () => {
  const messages = [
    stored(1, "prompt"),
    stored(2, "answer"),
    stored(3, "results"),
    stored(4, "answer"),
  ];

  test("counts the visible messages below it", () => {
    expect(countBelow(messages, 1)).toBe(2);
  });

  test("says what it replaces, interrupts and removes", () => {
    const chat = { status: "running" } as Snapshot;
    const transcript = { ...EMPTY, messages, chat, queue: [queued("a")] };
    expect(editWarning(transcript, 1)).toBe(
      "Replaces this message and the 2 below it. Interrupts the running turn. Removes the queued message.",
    );
    expect(editWarning({ ...EMPTY, messages }, 4)).toBe("Replaces this message.");
  });
});
