import { createElement } from "react";
import { renderToStaticMarkup } from "react-dom/server";
import { expect, it } from "vitest";
import { Pieces, piecesOf } from "./spans";

const render = (html: string) =>
  renderToStaticMarkup(createElement(Pieces, { all: piecesOf(html) }));

it("spans stay nested, with their classes", () => {
  const html = '<span class="hljs-string">a <span class="hljs-subst">b</span></span> c';
  expect(render(html)).toBe(html);
});

it("entities are decoded", () => {
  expect(piecesOf("&lt;b&gt; &amp;amp; &quot;x&quot; &#x27;y&#x27;")).toEqual([
    `<b> &amp; "x" 'y'`,
  ]);
});

it("a span keeps only its class", () => {
  const html = '<span style="color:red" class="a b" onclick="alert(1)">x</span>';
  expect(render(html)).toBe('<span class="a b">x</span>');
});

it.each(["<img src=x onerror=alert(1)>", "<script>alert(1)</script>", "a < b", "<spanner>"])(
  "any other element is text: %s",
  (html) => {
    const text = piecesOf(html).join("");
    expect(text).toBe(html);
    expect(render(html)).not.toMatch(/<[a-z]/);
  },
);

it("a surplus end tag is ignored", () => {
  expect(piecesOf("</span>a")).toEqual(["a"]);
});
