import { describe, expect, test } from "vitest";
import type { Message, Pending, Queued, Snapshot, Stored } from "../api/types";
import { EMPTY } from "../store/transcript";
import { escapeInvisible, invisible, warning } from "../ui/invisible";
import { asked, hasChoice, waitsFor, ways } from "./delivery";
import {
  type Attachment,
  contentOf,
  hindrance,
  isEmpty,
  pictureOf,
  promptOf,
} from "./draft-content";
import { below, replaced } from "./edit-warning";
import { saidBefore, stepped } from "./input-history";
import { isLong, pasted, pastedName } from "./paste";
import { moved, placeAt, range } from "./queue-order";
import { around, COMMANDS, matching, refusal, wanted } from "./slash-commands";

const names = (query: string) => matching(query).map((command) => command.name);
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
    expect(wanted("/etc/passwd is odd")).toBeNull();
    expect(wanted("/compact\nplease")).toBeNull();
    expect(wanted(" /compact")).toBeNull();
  });

  test("what stands behind the slash is looked for without regard to case", () => {
    expect(wanted("/Export M")).toBe("export m");
    expect(names("export m")).toEqual(["export markdown"]);
  });

  test("what cannot be done now says when it can", () => {
    expect(refusal(command("retry"), "idle")).toBe("after an error");
    expect(refusal(command("retry"), "error")).toBeNull();
    expect(refusal(command("stop"), "idle")).toBe("while the agent is working");
    expect(refusal(command("compact"), "running")).toBe("when the turn is over");
    expect(refusal(command("rename"), null)).toBeNull();
  });

  test("arrows go round", () => {
    expect([around(2, 1, 3), around(0, -1, 3), around(0, 1, 0)]).toEqual([0, 2, 0]);
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
    expect(asked(key({}), false)).toBe("queue");
    expect(asked(key({ ctrlKey: true }), false)).toBe("steer");
    expect(asked(key({ metaKey: true }), false)).toBe("steer");
    expect(asked(key({ ctrlKey: true, shiftKey: true }), false)).toBe("interrupt");
  });

  test("Shift with Enter, and Enter on a phone, write a new line", () => {
    expect(asked(key({ shiftKey: true }), false)).toBeNull();
    expect(asked(key({}), true)).toBeNull();
  });

  test("each way says what it does, and says another thing while the agent waits", () => {
    const running = ways("running").map((way) => way.about);
    const waits = ways("requires_action").map((way) => way.about);
    expect(new Set([...running, ...waits]).size).toBe(6);
  });

  test("there is a choice only while a turn is not over", () => {
    const statuses = ["idle", "error", "running", "interrupting", "requires_action"] as const;
    expect(statuses.map(hasChoice)).toEqual([false, false, true, true, true]);
  });

  test("how long a message is queued depends on whom the agent waits for", () => {
    const waitingFor = (kind: string) => waitsFor("requires_action", [{ kind } as Pending]);
    expect(waitingFor("approval")).toContain("until you have answered");
    expect(waitingFor("child")).toContain("its subagents");
    expect(waitsFor("running", [])).toBeNull();
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
    expect(pasted("a".repeat(1_000), 0, false)).toBe("attach");
    expect(pasted("a".repeat(1_000), 0, true)).toBe("inline");
    expect(pasted("short", 0, false)).toBe("inline");
  });

  test("with a picture of its text is the text", () => {
    expect(pasted("a\tb", 1, false)).toBe("inline");
    expect(pasted("", 2, false)).toBe("files");
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
    expect(hindrance({ text: "", files: [done("f")] })).toBeNull();
    expect(hindrance({ text: "", files: [way] })).toBe("uploading");
    expect(hindrance({ text: "", files: [way, failed] })).toBe("failed");
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
    expect(invisible("a\u200Bb\u{E0041}\u{E0042}")).toEqual({ hidden: 3, turning: 0 });
    expect(invisible("a\u202Eb\u2066c")).toEqual({ hidden: 0, turning: 2 });
  });

  test("are warned of in words", () => {
    expect(warning("a\u200Bb")).toContain("1 invisible character");
    expect(warning("a\u202Eb\u200Bc\u200B")).toContain("2 invisible characters and 1");
  });

  test("are none where they belong to what is seen", () => {
    const family = "\u{1F468}\u200D\u{1F469}\u200D\u{1F467}";
    const scotland = "\u{1F3F4}\u{E0067}\u{E0062}\u{E0073}\u{E0063}\u{E0074}\u{E007F}";
    const heart = "\u2764\uFE0F";
    const persian = "\u0645\u06CC\u200C\u062E\u0648\u0627\u0647\u0645";
    for (const text of [family, scotland, heart, persian, "1\uFE0F\u20E3", "a\tb\r\nc"]) {
      expect(warning(text)).toBeNull();
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
    expect(ids(moved(queue, "c", 1))).toBe("scab");
    expect(ids(moved(queue, "a", 2))).toBe("sbac");
  });

  test("a message stays among its kind", () => {
    expect(ids(moved(queue, "b", 0))).toBe("sbac");
    expect(moved(queue, "s", 3)).toBe(queue);
    expect(range(queue, "b")).toEqual([1, 3]);
  });

  test("a message that is gone moves nothing", () => {
    expect(moved(queue, "x", 0)).toBe(queue);
  });

  test("the place is that of the row under the pointer, or the nearest", () => {
    expect([-5, 5, 15, 99].map((height) => placeAt([10, 20, 30], height))).toEqual([0, 0, 1, 2]);
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
    expect(saidBefore(messages)).toEqual(["two", "one"]);
  });

  test("is walked back to the oldest and forth to the draft", () => {
    expect(stepped(null, "back", 2)).toBe(0);
    expect(stepped(0, "back", 2)).toBe(1);
    expect(stepped(1, "back", 2)).toBe(1);
    expect(stepped(1, "forth", 2)).toBe(0);
    expect(stepped(0, "forth", 2)).toBeNull();
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
    expect(below(messages, 1)).toBe(2);
  });

  test("says all that it takes out", () => {
    const chat = { status: "running" } as Snapshot;
    const transcript = { ...EMPTY, messages, chat, queue: [queued("a")] };
    expect(replaced(transcript, 1)).toBe(
      "Replaces this message and the 2 below it. Stops the running turn. Drops the queued message.",
    );
    expect(replaced({ ...EMPTY, messages }, 4)).toBe("Replaces this message.");
  });
});
