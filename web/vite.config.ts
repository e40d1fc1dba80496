/// <reference types="vitest/config" />
import tailwindcss from "@tailwindcss/vite";
import react from "@vitejs/plugin-react";
import { defineConfig, type Plugin } from "vite";
import { sourceDigest } from "./scripts/source-digest.mjs";

const SERVICE = "http://127.0.0.1:5001";
const ADDRESSES = ["/health", "/models", "/gpus", "/options", "/jobs", "/analyze", "/openapi"];

/** Writes down what the build was made from, so that a test can tell whether it is stale. */
function buildFacts(): Plugin {
  return {
    name: "build-facts",
    apply: "build",
    generateBundle() {
      const facts = { source_digest: sourceDigest() };
      this.emitFile({ type: "asset", fileName: "build.json", source: JSON.stringify(facts, null, 2) + "\n" });
    },
  };
}

export default defineConfig({
  base: "/",
  plugins: [react(), tailwindcss(), buildFacts()],
  build: {
    outDir: "../src/memorymark/server/dashboard",
    emptyOutDir: true,
    // The service forbids fonts and scripts that are not files of its own.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    target: ["es2022", "firefox115", "safari16"],
  },
  server: { proxy: Object.fromEntries(ADDRESSES.map((address) => [address, process.env.SERVICE ?? SERVICE])) },
  // Node has no page whose address calls could be relative to.
  test: { include: ["tests/**/*.test.ts"], env: { VITE_API_URL: "http://service.test" } },
});
