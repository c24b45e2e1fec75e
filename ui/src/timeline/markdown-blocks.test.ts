import { describe, expect, it } from "vitest";
import { BlockSplitter } from "./markdown-blocks";

const TEXTS: Readonly<Record<string, string>> = {
  empty: "",
  paragraphs: "One.\n\nTwo goes\nover lines.\n\n\n\nThree.",
  headings: "# A\ntext\n## B\n\nSetext\n===\n\nother\n---\nFoo\n#bar\n#\n",
  rules: "a\n***\nb\n\n---\n***not a rule***\n",
  list: "- a\n- b\n  - c\n\n  more of b\n- d\n\nbehind\n* another\n1. one\n1) two\n",
  "a list that stops": "- a\n\n--\n\n- b\n-\n- c\n\n    code or text\n\nend",
  fence: "text\n```py\nx = 1\n\n# no heading\n- no item\n```\nafter\n~~~\n```\n~~~\n``` a`b\n",
  "an open fence": "```\nnever closed\n\nstill\n",
  "fence in a list": "1. do\n   ```sh\n   ls\n\n   pwd\n   ```\n2. done\n",
  table: "text\n| a | b |\n|---|:-:|\n| 1 | 2 |\n| 3 |\n\nbehind | it\n--|--\nx|y\n",
  quotation: "> a\nlazy\n> - b\n\n> c\n#\n#x\n",
  html: "<div>\n\n*a*\n\n</div>\n<script>alert(1)</script>\n<!-- x\n\ny -->\n",
  "indented code": "para\n    still para\n\n    code\n\n    code\n   no code\n",
  windows: "a\r\n\r\n- b\r\n- c\r\rd",
  tabs: "-\ta\n\n\tb\n\n\t\tcode\n",
  definitions: "[a]: https://x.y\n\n[a] and [b][a]\n\n[^1]: note\n",
  spaces: "\n\n  \n a\n \n",
};

function joined(text: string): string {
  return new BlockSplitter()
    .of(text)
    .map(({ raw }) => raw)
    .join("");
}

/** Always the same numbers, so that a failure can be seen again. */
function* numbers(seed: number): Generator<number> {
  let state = seed;
  for (;;) {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
    yield state / 2_147_483_648;
  }
}

function grown(text: string, seed: number, most: number): BlockSplitter {
  const blocks = new BlockSplitter();
  const random = numbers(seed);
  for (let at = 0; at < text.length; ) {
    at += 1 + Math.floor((random.next().value ?? 0) * most);
    blocks.of(text.slice(0, at));
  }
  return blocks;
}

describe.each(Object.entries(TEXTS))("the blocks of %s", (_, text) => {
  it("are the text when joined", () => {
    expect(joined(text)).toBe(text.replace(/\r\n|\r/g, "\n"));
  });

  it("are the same for any division into pieces", () => {
    const whole = new BlockSplitter().of(text);
    for (let seed = 1; seed <= 60; seed += 1) {
      expect(grown(text, seed, seed % 12).of(text)).toEqual(whole);
    }
  });

  it("are the text so far after each piece", () => {
    const blocks = new BlockSplitter();
    for (let at = 0; at <= text.length; at += 1) {
      const part = text.slice(0, at);
      const raw = blocks.of(part).map((block) => block.raw);
      expect(raw.join("")).toBe(part.replace(/\r\n|\r/g, "\n"));
    }
  });
});

describe("a text that grows", () => {
  it("keeps the objects of finished blocks", () => {
    const blocks = new BlockSplitter();
    const before = blocks.of("one\n\ntwo\n\nthree\nfour");
    const after = blocks.of("one\n\ntwo\n\nthree\nfour five");
    expect(after[0]).toBe(before[0]);
    expect(after[1]).toBe(before[1]);
    expect(after[2]).toEqual({ raw: "three\nfour five" });
  });

  it("is parsed anew when it becomes another text", () => {
    const blocks = new BlockSplitter();
    blocks.of("one\n\ntwo\n\nthree\n\n");
    expect(blocks.of("else\n\ntwo").map(({ raw }) => raw)).toEqual(["else\n\n", "two"]);
  });

  it("gives the same array for the same text", () => {
    const blocks = new BlockSplitter();
    expect(blocks.of("a\n\nb")).toBe(blocks.of("a\n\nb"));
  });
});

describe("a long list", () => {
  const items = (of: (n: number) => string) =>
    Array.from({ length: 100 }, (_, n) => of(n + 1)).join("\n");

  it("is split into the same parts for any division into pieces", () => {
    const text = `${items((n) => `- item ${n}\n  with *more*`)}\n\nend`;
    const whole = new BlockSplitter().of(text);
    expect(whole.length).toBeGreaterThan(4);
    expect(joined(text)).toBe(text);
    for (let seed = 1; seed <= 10; seed += 1) {
      expect(grown(text, seed, 40).of(text)).toEqual(whole);
    }
  });

  it("continues the numbering when all items are numbered 1", () => {
    const text = items(() => "1. same");
    const starts = new BlockSplitter().of(text).map(({ start }) => start);
    expect(starts).toEqual([undefined, 25, 49, 73, 97]);
    expect(grown(text, 7, 30).of(text)).toEqual(new BlockSplitter().of(text));
  });
});
