/// <reference types="vitest/config" />
import { readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { brotliCompress, constants, gzip } from "node:zlib";
import react from "@vitejs/plugin-react";
import { defineConfig, type Plugin } from "vite";

const built = "../holdfast/server/built";
const server = process.env.HOLDFAST_URL ?? "http://127.0.0.1:8765";

/** Beside each asset, the same in small: the server sends files as they are and packs nothing. */
function packed(): Plugin {
  return {
    name: "packed",
    apply: "build",
    async writeBundle({ dir }) {
      const assets = join(dir ?? built, "assets");
      const names = (await readdir(assets)).filter((name) => /\.(js|css|svg|json)$/.test(name));
      await Promise.all(names.map((name) => pack(join(assets, name))));
    },
  };
}

async function pack(file: string): Promise<void> {
  const bytes = await readFile(file);
  const params = { [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length };
  await writeFile(`${file}.gz`, await promisify(gzip)(bytes, { level: 9 }));
  await writeFile(`${file}.br`, await promisify(brotliCompress)(bytes, { params }));
}

export default defineConfig({
  plugins: [react(), packed()],
  build: {
    outDir: built,
    emptyOutDir: true,
    target: "es2022",
    sourcemap: false,
    // Nothing inline: the page's policy allows scripts, styles and pictures of its own origin alone.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    // In kB, unpacked. What counts is what is sent: tests/test_wheel.py has the budget for that.
    chunkSizeWarningLimit: 900,
  },
  server: {
    host: "127.0.0.1",
    proxy: {
      // The server lets in its own page alone, so the request says that it comes from there.
      "/api": { target: server, changeOrigin: true, ws: true, headers: { origin: server } },
    },
  },
  test: {
    include: ["src/**/*.test.{ts,tsx}"],
    environment: "node",
    passWithNoTests: true,
  },
});
