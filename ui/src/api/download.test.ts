import { expect, it } from "vitest";
import { withDownloadKey } from "./download";

it("only URLs of the API get the key", () => {
  expect(withDownloadKey("/api/v1/files/f", "hfd_1")).toBe("/api/v1/files/f?download_key=hfd_1");
  expect(withDownloadKey("/api/v1/x?format=jsonl", "hfd_1")).toBe(
    "/api/v1/x?format=jsonl&download_key=hfd_1",
  );
  for (const href of ["https://example.com/api/v1/files/f", "data:image/png;base64,AA==", "/x"]) {
    expect(withDownloadKey(href, "hfd_1")).toBe(href);
  }
  expect(withDownloadKey("/api/v1/files/f", null)).toBe("/api/v1/files/f");
});
