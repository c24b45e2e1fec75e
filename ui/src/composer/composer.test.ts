import { describe, expect, test } from "vitest";
import type { Message, Pending, Queued, Snapshot, Stored } from "../api/types";
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
  test("a slash alone offers all of them", () => {
    expect(names("")).toEqual(COMMANDS.map((each) => each.name));
  });

  test("the beginning of a name goes before the beginning of one of its words", () => {
    expect(names("m")).toEqual(["model", "export markdown"]);
  });

  test("they are found by what they do", () => {
    expect(names("summ")).toEqual(["compact"]);
    expect(names("title")).toEqual(["rename"]);
  });

  test("a text that no command fits is a message", () => {
    expect(names("tmp is full")).toEqual([]);
    expect(commandQuery("/etc/passwd is odd")).toBeNull();
    expect(commandQuery("/compact\nplease")).toBeNull();
    expect(commandQuery(" /compact")).toBeNull();
  });

  test("what stands behind the slash is looked for without regard to case", () => {
    expect(commandQuery("/Export M")).toBe("export m");
    expect(names("export m")).toEqual(["export markdown"]);
  });

  test("what cannot be done now says when it can", () => {
    expect(whyUnavailable(command("retry"), "idle")).toBe("after an error");
    expect(whyUnavailable(command("retry"), "error")).toBeNull();
    expect(whyUnavailable(command("stop"), "idle")).toBe("while the agent is working");
    expect(whyUnavailable(command("compact"), "running")).toBe("when the turn is over");
    expect(whyUnavailable(command("rename"), null)).toBeNull();
  });

  test("arrows go round", () => {
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

  test("each way says what it does, and says another thing while the agent waits", () => {
    const running = deliveryModes("running").map((way) => way.about);
    const waits = deliveryModes("requires_action").map((way) => way.about);
    expect(new Set([...running, ...waits]).size).toBe(6);
  });

  test("there is a choice only while a turn is not over", () => {
    const statuses = ["idle", "error", "running", "interrupting", "requires_action"] as const;
    expect(statuses.map(hasChoice)).toEqual([false, false, true, true, true]);
  });

  test("how long a message is queued depends on whom the agent waits for", () => {
    const waitingFor = (kind: string) => waitingHint("requires_action", [{ kind } as Pending]);
    expect(waitingFor("approval")).toContain("until you have answered");
    expect(waitingFor("child")).toContain("its subagents");
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

  test("that is long goes beside the message, unless it is asked for as text", () => {
    expect(pasteAction("a".repeat(1_000), 0, false)).toBe("attach");
    expect(pasteAction("a".repeat(1_000), 0, true)).toBe("inline");
    expect(pasteAction("short", 0, false)).toBe("inline");
  });

  test("with a picture of its text is the text", () => {
    expect(pasteAction("a\tb", 1, false)).toBe("inline");
    expect(pasteAction("", 2, false)).toBe("files");
  });

  test("gets a name that is free", () => {
    expect(pastedName([])).toBe("pasted.txt");
    expect(pastedName(["pasted.txt", "pasted-2.txt"])).toBe("pasted-3.txt");
  });
});

const done = (id: string, media = "image/png"): Attachment => {
  const part = { type: "file", file: id } as const;
  return { id, name: id, media, size: 1, progress: { is: "done", part } };
};

describe("a prompt", () => {
  test("of text alone is text, without the blanks at its end", () => {
    expect(promptOf({ text: "  hello \n\n", files: [] })).toBe("  hello");
  });

  test("with files is parts, the text first", () => {
    expect(promptOf({ text: "see", files: [done("f")] })).toEqual([
      { type: "text", text: "see" },
      { type: "file", file: "f" },
    ]);
  });

  test("of files alone has no empty text", () => {
    expect(promptOf({ text: " \n", files: [done("f")] })).toEqual([{ type: "file", file: "f" }]);
  });

  test("of nothing is none", () => {
    expect(promptOf({ text: " ", files: [] })).toBeNull();
    expect(isEmpty({ text: "\n", files: [] })).toBe(true);
  });

  test("waits for files that are on their way, and for those that failed", () => {
    const way: Attachment = { ...done("f"), progress: { is: "uploading", share: 0.5 } };
    const failed: Attachment = { ...done("g"), progress: { is: "failed", why: "no" } };
    expect(sendBlocker({ text: "", files: [done("f")] })).toBeNull();
    expect(sendBlocker({ text: "", files: [way] })).toBe("uploading");
    expect(sendBlocker({ text: "", files: [way, failed] })).toBe("failed");
  });

  test("that was said becomes the same prompt again", () => {
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

  test("shows pictures that a browser may show, and no others", () => {
    expect(pictureOf(done("f"))).toBe("/api/v1/files/f");
    expect(pictureOf(done("f", "image/svg+xml"))).toBeNull();
  });
});

describe("characters that nobody sees", () => {
  test("are counted, apart from those that turn the text", () => {
    expect(countInvisible("a\u200Bb\u{E0041}\u{E0042}")).toEqual({ hidden: 3, directional: 0 });
    expect(countInvisible("a\u202Eb\u2066c")).toEqual({ hidden: 0, directional: 2 });
  });

  test("are warned of in words", () => {
    expect(invisibleWarning("a\u200Bb")).toContain("1 invisible character");
    expect(invisibleWarning("a\u202Eb\u200Bc\u200B")).toContain("2 invisible characters and 1");
  });

  test("are none where they belong to what is seen", () => {
    const family = "\u{1F468}\u200D\u{1F469}\u200D\u{1F467}";
    const scotland = "\u{1F3F4}\u{E0067}\u{E0062}\u{E0073}\u{E0063}\u{E0074}\u{E007F}";
    const heart = "\u2764\uFE0F";
    const persian = "\u0645\u06CC\u200C\u062E\u0648\u0627\u0647\u0645";
    for (const text of [family, scotland, heart, persian, "1\uFE0F\u20E3", "a\tb\r\nc"]) {
      expect(invisibleWarning(text)).toBeNull();
      expect(escapeInvisible(text)).toBe(text);
    }
  });

  test("can be spelled", () => {
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

  test("a message moves to a place", () => {
    expect(ids(reordered(queue, "c", 1))).toBe("scab");
    expect(ids(reordered(queue, "a", 2))).toBe("sbac");
  });

  test("a message stays among its kind", () => {
    expect(ids(reordered(queue, "b", 0))).toBe("sbac");
    expect(reordered(queue, "s", 3)).toBe(queue);
    expect(range(queue, "b")).toEqual([1, 3]);
  });

  test("a message that is gone moves nothing", () => {
    expect(reordered(queue, "x", 0)).toBe(queue);
  });

  test("the place is that of the row under the pointer, or the nearest", () => {
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

describe("what was said before", () => {
  test("comes newest first, without answers and repetitions", () => {
    const messages = [
      stored(1, "prompt", "one"),
      stored(2, "answer", "yes"),
      stored(3, "prompt", "two"),
      stored(4, "prompt", "two"),
    ];
    expect(earlierPrompts(messages)).toEqual(["two", "one"]);
  });

  test("is walked back to the oldest and forth to the draft", () => {
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

  test("counts what people see below it", () => {
    expect(countBelow(messages, 1)).toBe(2);
  });

  test("says all that it takes out", () => {
    const chat = { status: "running" } as Snapshot;
    const transcript = { ...EMPTY, messages, chat, queue: [queued("a")] };
    expect(editWarning(transcript, 1)).toBe(
      "Replaces this message and the 2 below it. Stops the running turn. Drops the queued message.",
    );
    expect(editWarning({ ...EMPTY, messages }, 4)).toBe("Replaces this message.");
  });
});
