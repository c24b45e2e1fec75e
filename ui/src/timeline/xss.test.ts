import { createElement } from "react";
import { renderToStaticMarkup } from "react-dom/server";
import { describe, expect, it } from "vitest";
import { Markdown } from "./markdown";
import payloads from "./xss.json";

/** All that an answer can become. */
const TAGS = new Set(
  "div p h3 h4 h5 h6 ul ol li blockquote hr br strong em del code pre a span img button svg path line circle polyline rect input figure figcaption table thead tbody tr th td".split(
    " ",
  ),
);
const ATTRIBUTES = new Set(
  "class href target rel title type aria-label aria-hidden role data-scroller data-task data-tasks data-align data-look data-icon data-size start checked disabled readOnly src alt xmlns width height viewBox fill stroke stroke-width stroke-linecap stroke-linejoin d x x1 x2 y y1 y2 rx ry cx cy r points".split(
    " ",
  ),
);

/** Names of elements and attributes; texts are escaped by then, so that none looks like one. */
function* elements(html: string): Generator<{ tag: string; attributes: Map<string, string> }> {
  for (const [, tag = "", rest = ""] of html.matchAll(
    /<([a-zA-Z][^\s/>]*)((?:\s+[^\s=>]+(?:="[^"]*")?)*)\s*\/?>/g,
  )) {
    const attributes = new Map<string, string>();
    for (const [, name = "", value = ""] of rest.matchAll(/([^\s=]+)(?:="([^"]*)")?/g)) {
      attributes.set(name, value);
    }
    yield { tag, attributes };
  }
}

describe.each([
  ["finished", false],
  ["growing", true],
])("an answer that is %s", (_, growing) => {
  it.each(payloads)("creates no unsafe element for %j", (text) => {
    const html = renderToStaticMarkup(createElement(Markdown, { text, growing }));
    for (const { tag, attributes } of elements(html)) {
      expect(TAGS).toContain(tag);
      for (const [name, value] of attributes) {
        expect(ATTRIBUTES).toContain(name);
        if (name === "href") expect(value).toMatch(/^(https?|mailto):/);
        if (name === "src") expect(value).toMatch(/^data:image\/(png|jpeg|gif|webp|avif);base64,/);
      }
    }
  });
});
