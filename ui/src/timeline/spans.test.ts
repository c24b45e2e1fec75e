import { createElement } from "react";
import { renderToStaticMarkup } from "react-dom/server";
import { expect, it } from "vitest";
import { Pieces, piecesOf } from "./spans";

const shown = (html: string) =>
  renderToStaticMarkup(createElement(Pieces, { all: piecesOf(html) }));

it("spans stay in each other, with their classes", () => {
  const html = '<span class="hljs-string">a <span class="hljs-subst">b</span></span> c';
  expect(shown(html)).toBe(html);
});

it("what stands for a character is that character", () => {
  expect(piecesOf("&lt;b&gt; &amp;amp; &quot;x&quot; &#x27;y&#x27;")).toEqual([
    `<b> &amp; "x" 'y'`,
  ]);
});

it("a class is all that a span keeps", () => {
  const html = '<span style="color:red" class="a b" onclick="alert(1)">x</span>';
  expect(shown(html)).toBe('<span class="a b">x</span>');
});

it.each(["<img src=x onerror=alert(1)>", "<script>alert(1)</script>", "a < b", "<spanner>"])(
  "any other element is text: %s",
  (html) => {
    const text = piecesOf(html).join("");
    expect(text).toBe(html);
    expect(shown(html)).not.toMatch(/<[a-z]/);
  },
);

it("an end too many ends nothing", () => {
  expect(piecesOf("</span>a")).toEqual(["a"]);
});
