/**
 * Vite configuration of the page on which the timeline is measured:
 * `npx vite build --config src/timeline/stress.config.ts --outDir <somewhere>`.
 */

import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

export default defineConfig({
  root: "src/timeline",
  plugins: [react()],
  build: {
    target: "es2022",
    emptyOutDir: true,
    assetsInlineLimit: 0,
    rollupOptions: { input: "src/timeline/stress.html" },
  },
});
