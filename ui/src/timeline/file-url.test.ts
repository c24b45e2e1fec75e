import { expect, it } from "vitest";
import { fileUrlOf } from "./file-url";

const file = { type: "file", media_type: "image/png" } as const;

it("an uploaded file has a URL below its chat, for all readers of the chat", () => {
  expect(fileUrlOf({ ...file, ref: "holdfast:f/1" }, "c 1")).toEqual({
    href: "/api/v1/chats/c%201/files/f%2F1",
    isPicture: true,
    isRemote: false,
  });
});

it("embedded files that can run scripts are only downloaded", () => {
  const svg = { ...file, media_type: "image/svg+xml", data: "PHN2Zz4=" };
  expect(fileUrlOf(svg, "c")).toEqual({
    href: "data:application/octet-stream;base64,PHN2Zz4=",
    isPicture: false,
    isRemote: false,
  });
});

it("a remote file is not fetched, only linked, and only if its URL is safe", () => {
  expect(fileUrlOf({ ...file, ref: "https://example.com/p.png" }, "c")).toMatchObject({
    href: "https://example.com/p.png",
    isPicture: false,
    isRemote: true,
  });
  expect(fileUrlOf({ ...file, ref: "javascript:alert(1)" }, "c").href).toBeNull();
  expect(fileUrlOf(file, "c").href).toBeNull();
});
