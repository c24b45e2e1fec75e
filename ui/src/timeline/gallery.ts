/** A chat with one row of every kind, for tests and pictures. */

import type { ChatEvent, Part, Stored } from "../api/types";
import {
  answer,
  call,
  chatEvent,
  delta,
  messageEvent,
  prompt,
  result,
  results,
  stored,
} from "../store/fixtures";

const PIXEL =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

const DIFF = `--- a/src/greet.py
+++ b/src/greet.py
@@ -1,4 +1,5 @@
 def greet(name):
-    print("hello " + name)
+    """Say hello."""
+    print(f"Hello, {name}!")
 
 greet("you")`;

const FORMATTED = `# What I found

Text with *emphasis*, **strong emphasis**, ~~deleted words~~, \`code\` and [a link](https://example.com/).

1. first
2. second
   - nested, with \`code\`
- [x] done
- [ ] not done

| name | size | what it is for |
|:-----|-----:|----------------|
| \`a.txt\` | 12 | A file with a rather long description so that the table has to scroll within itself |
| \`b.txt\` | 3400 | second<br>line |

\`\`\`python
def greet(name: str) -> str:
    """Says hello, and this line is so long that it has to scroll within the block of code, not the page."""
    return f"Hello, {name}!"  # done
\`\`\`

> A quotation.

<script>alert("shown as text")</script> and ![a chart](https://example.com/chart.png)`;

const outcome = (part: Part & { type: "result" }, is: string) => ({ ...part, outcome: is }) as Part;

function reads(first: number): Stored[] {
  return [
    answer(first, [
      call("l1", "read_file", { path: "src/greet.py" }),
      call("l2", "read_file", { path: "README.md", offset: 1, limit: 20 }),
      call("l3", "search_files", { pattern: "greet" }),
    ]),
    results(first + 1, [
      result("l1", "read_file", "    1\tdef greet(name):\n    2\t    print(name)"),
      result("l2", "read_file", "    1\t# Greet"),
      result("l3", "search_files", "src/greet.py:1: def greet(name):\n1 match in 1 file."),
    ]),
  ];
}

function changes(first: number): Stored[] {
  const edits = [{ old_text: "a", new_text: "b" }];
  return [
    answer(first, [
      {
        type: "reasoning",
        text: "I should **look** at the file first.\n\nThen change it.",
        started_at: 1,
        finished_at: 4_000_001,
      },
      { type: "text", text: "I will change the greeting and run the tests." },
      call("e1", "edit_file", { path: "src/greet.py", edits }),
      call("e2", "write_file", { path: "notes.md", content: "# Notes\n\n- one\n" }),
      call("e3", "edit_file", { path: "missing.py", edits }),
      call("x1", "execute", { command: "make test" }),
      call("x2", "execute", { command: "pytest -q tests/test_greet.py" }),
      call("x3", "execute", { command: "sleep 600", timeout: 5 }),
      call("x4", "execute", { command: "rm -rf build" }),
      call("o1", "github__create_issue", { title: "A bug", labels: ["bug", "ui"] }),
      call("q1", "ask_user", { questions: [{ question: "Which colour?" }] }),
    ]),
    results(first + 1, [
      result("e1", "edit_file", DIFF),
      result("e2", "write_file", "Wrote notes.md (3 lines, 15 B): a new file."),
      outcome(
        result("e3", "edit_file", "missing.py does not exist. To make a new file, use write_file."),
        "failed",
      ),
      result(
        "x1",
        "execute",
        "\u001b[32m12 passed\u001b[0m, \u001b[31;1m1 failed\u001b[0m\n[exit code 1, 3.2 s]",
      ),
      result("x2", "execute", "........ 8 passed\n[exit code 0, 1.4 s]"),
      outcome(
        result(
          "x3",
          "execute",
          "(no output)\n[time limit of 5 s reached: the command was stopped, with everything that it had started]",
        ),
        "timed_out",
      ),
      outcome(result("x4", "execute", "Refused: not now."), "refused"),
      result("o1", "github__create_issue", '{"number":12,"url":"https://example.com/12"}'),
      result("q1", "ask_user", 'Which colour? → green; in their own words: "but not too bright"'),
    ]),
  ];
}

export function gallery(): readonly ChatEvent[] {
  const usage = { input: 31_200, output: 840, cost: 0.0312 };
  const messages: Stored[] = [
    stored(1, {
      role: "user",
      kind: "prompt",
      parts: [
        {
          type: "text",
          text: "Look at this picture and at the log, and mend the greeting.\nThen run the tests.",
        },
        { type: "file", media_type: "image/png", name: "screen.png", data: PIXEL },
        { type: "file", media_type: "text/plain", name: "server.log", data: "aGk=" },
      ],
    }),
    ...reads(2),
    ...changes(4),
    answer(
      6,
      [
        { type: "text", text: FORMATTED },
        { type: "source", url: "https://example.com/docs", title: "The documentation" },
        { type: "source", url: "https://example.org/other" },
      ],
      { usage, model: "demo/demo" },
    ),
    stored(7, {
      role: "user",
      kind: "checkpoint",
      parts: [{ type: "text", text: "The person wanted a **better greeting**." }],
      checkpoint: { covers: 84, trims: 0, before: 31_000, after: 4_100 },
    }),
    stored(8, {
      role: "system",
      kind: "note",
      parts: [{ type: "text", text: "Stopped: this turn reached its limit of 40 steps." }],
    }),
    prompt(9, "And now?"),
    answer(10, [
      call("r1", "execute", { command: "make watch" }),
      call("r2", "read_file", { path: "x.py" }),
    ]),
  ];
  return [
    chatEvent({ status: "running" }),
    ...messages.map(messageEvent),
    delta(1, { type: "tool_started", call_id: "r1", tool: "execute", label: "Run make watch" }),
    delta(2, {
      type: "tool_progressed",
      call_id: "r1",
      tool: "execute",
      what: "progress",
      text: "building…\nwatching 12 files\n",
    }),
    delta(3, { type: "warning", text: "The model does not know this effort: it was left out." }),
  ];
}
