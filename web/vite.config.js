// Builds the pages into dist/. From there cargo embeds them in the program (crates/core/web).
import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import { defineConfig } from "vite";

const DIST = new URL("dist/", import.meta.url).pathname;

/** Empties dist/ except for its .gitignore, which is committed: cargo watches the folder, so it must always exist. */
const clean = {
  name: "clean",
  buildStart() {
    for (const name of readdirSync(DIST)) {
      if (name !== ".gitignore") rmSync(join(DIST, name), { recursive: true });
    }
  },
};

/** Writes compressed forms of each file that gets at least a tenth smaller: Brotli, and gzip for clients without Brotli. */
const compress = {
  name: "compress",
  closeBundle() {
    const folder = join(DIST, "assets");
    for (const name of readdirSync(folder)) {
      const bytes = readFileSync(join(folder, name));
      const params = { [constants.BROTLI_PARAM_QUALITY]: 11 };
      const compressed = brotliCompressSync(bytes, { params });
      if (compressed.length >= bytes.length * 0.9) continue;
      writeFileSync(join(folder, `${name}.br`), compressed);
      writeFileSync(join(folder, `${name}.gz`), gzipSync(bytes, { level: 9 }));
    }
  },
};

/**
 * Makes the shelf installable (https://www.w3.org/TR/appmanifest). The manifest is in `/-/assets/`, perhaps with a token before it; it opens `/-/`, and
 * every page of the server is part of the app. Vite names the icon after its pages are written, so this looks it up at the end.
 */
const manifest = {
  name: "manifest",
  generateBundle: {
    order: "post",
    handler(_, bundle) {
      const page = bundle["shelf.html"];
      const icon = /href="\.\/assets\/(icon-[^"]+\.svg)"/.exec(page.source)?.[1];
      if (icon === undefined) this.error("the shelf has no icon");
      const source = JSON.stringify({
        name: "Fullbore",
        start_url: "../",
        scope: "../../",
        display: "standalone",
        background_color: "#0e1116",
        theme_color: "#0e1116",
        icons: [{ src: icon, sizes: "any", type: "image/svg+xml", purpose: "any" }],
      });
      const name = this.getFileName(this.emitFile({ type: "asset", name: "manifest.webmanifest", source }));
      page.source = page.source.replace("</head>", `  <link rel="manifest" href="./${name}" />\n  </head>`);
    },
  },
};

/** Writes the licences of the bundled packages beside the bundles, as those licences require. */
const licences = {
  name: "licences",
  generateBundle(_, bundle) {
    const modules = Object.values(bundle).flatMap((chunk) => Object.keys(chunk.modules ?? {}));
    const folders = new Set(modules.map((id) => /^\0?(.*\/node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(id)?.[1]).filter(Boolean));
    const texts = [...folders].sort().map((folder) => {
      const { name, version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
      const file = readdirSync(folder).find((file) => /^licen[cs]e/i.test(file));
      if (file === undefined) this.error(`${name} comes without the text of its licence`);
      return `${name} ${version} (${license})\n\n${readFileSync(join(folder, file), "utf8").trim()}\n`;
    });
    this.emitFile({ type: "asset", fileName: "licences.txt", source: texts.join(`\n${"-".repeat(80)}\n\n`) });
  },
};

export default defineConfig({
  // Relative, because a token may come before everything (/t/TOKEN/-/watch/film). See crates/core/web/src/lib.rs for <base>.
  base: "./",
  plugins: [clean, manifest, licences, compress],
  build: {
    emptyOutDir: false,
    // Nothing is inlined into pages: the policy forbids it.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    target: ["chrome109", "firefox115", "safari16"],
    // dash.js is large, but only viewers who choose DASH load it.
    chunkSizeWarningLimit: 1200,
    rollupOptions: { input: ["shelf.html", "watch.html", "dashboard.html", "fleet.html"] },
  },
});
