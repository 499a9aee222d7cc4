// The files that pages load: our own, and those of htmx and uPlot. The address carries a digest of the content, so a
// browser may cache it for ever.
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { appFile } from "../common/app-file.js";

interface Asset {
  readonly body: Buffer;
  readonly type: string;
  readonly digest: string;
}

const require = createRequire(import.meta.url);
const own = (name: string): URL => appFile(`public/${name}`);

const load = (files: readonly (URL | string)[], type: string): Asset => {
  const body = Buffer.concat(files.flatMap((file) => [readFileSync(file), Buffer.from("\n")]));
  return { body, type, digest: createHash("sha256").update(body).digest("base64url").slice(0, 12) };
};

const script = "text/javascript; charset=utf-8";

const assets: ReadonlyMap<string, Asset> = new Map([
  ["shop.css", load([own("shop.css")], "text/css; charset=utf-8")],
  ["shop.js", load([own("shop.js")], script)],
  ["charts.js", load([own("charts.js")], script)],
  ["favicon.svg", load([own("favicon.svg")], "image/svg+xml")],
  // In one file: htmx processes the page as soon as it runs, so an extension that loads later has no effect.
  [
    "htmx.js",
    load([require.resolve("htmx.org/dist/htmx.min.js"), require.resolve("htmx.org/dist/ext/hx-sse.min.js")], script),
  ],
  ["uplot.js", load([require.resolve("uplot/dist/uPlot.iife.min.js")], script)],
  ["uplot.css", load([require.resolve("uplot/dist/uPlot.min.css")], "text/css; charset=utf-8")],
]);

export const asset = (name: string): Asset | undefined => assets.get(name);

export const assetUrl = (name: string): string => `/assets/${assets.get(name)?.digest ?? ""}/${name}`;
