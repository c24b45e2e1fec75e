import { expect, it } from "vitest";
import { decodedEntities, pictureOf, safeLink } from "./safe-url";

it.each([
  "https://example.com/a?b=1&c=2",
  "http://localhost:8000/",
  "mailto:somebody@example.com",
  "HTTPS://EXAMPLE.COM/",
])("follows %s", (href) => {
  expect(safeLink(href)).not.toBeNull();
});

it.each([
  "javascript:alert(1)",
  "JaVaScRiPt:alert(1)",
  " javascript:alert(1)",
  "java\nscript:alert(1)",
  "java\tscript:alert(1)",
  "\u0001javascript:alert(1)",
  "javascript&colon;alert(1)",
  "&#106;avascript:alert(1)",
  "&#x6A;avascript:alert(1)",
  "java&Tab;script:alert(1)",
  "java&NewLine;script:alert(1)",
  "vbscript:msgbox(1)",
  "data:text/html,<script>alert(1)</script>",
  "data:text/html;base64,PHNjcmlwdD4=",
  "blob:https://example.com/1",
  "file:///etc/passwd",
  "filesystem:https://example.com/x",
  "view-source:https://example.com",
  "//example.com/x",
  "/settings",
  "#main",
  "",
])("does not follow %s", (href) => {
  expect(safeLink(href)).toBeNull();
});

it("decodes a URL as the browser does", () => {
  expect(safeLink("https://example.com/?a=1&amp;b=2")).toBe("https://example.com/?a=1&b=2");
});

it("shows embedded images, unless they can run scripts", () => {
  expect(pictureOf("data:image/png;base64,iVBORw0KGgo=")?.is).toBe("here");
  expect(pictureOf("data:image/svg+xml;base64,PHN2Zz4=")).toBeNull();
  expect(pictureOf("data:image/png,<svg onload=alert(1)>")).toBeNull();
  expect(pictureOf("data:text/html;base64,aGk=")).toBeNull();
  expect(pictureOf("javascript:alert(1)")).toBeNull();
});

it("names the host of a remote image", () => {
  expect(pictureOf("https://example.com:8443/p.png")).toEqual({
    is: "remote",
    href: "https://example.com:8443/p.png",
    host: "example.com:8443",
  });
});

it("decodes named and numeric entities", () => {
  expect(decodedEntities("a &lt;b&gt; &#65;&#x42; &copy; &nosuch; & &#0;")).toBe(
    "a <b> AB © &nosuch; & \ufffd",
  );
});

it("does not take property names of objects for entities", () => {
  expect(decodedEntities("&toString; &valueOf;")).toBe("&toString; &valueOf;");
});
