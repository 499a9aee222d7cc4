import { createHash } from "node:crypto";
import htmx from "htmx.org/dist/htmx.min.js?raw";
import css from "./board.css?raw";
import icon from "./icon.svg?raw";

interface Asset {
  readonly body: string;
  readonly type: string;
  /** Changes with the content, so that a browser may keep the file for good. */
  readonly digest: string;
}

const asset = (body: string, type: string): Asset => ({
  body,
  type,
  digest: createHash("sha256").update(body).digest("base64url").slice(0, 10),
});

export const assets: Readonly<Record<"board.css" | "htmx.js" | "icon.svg", Asset>> = {
  "board.css": asset(css, "text/css; charset=utf-8"),
  "htmx.js": asset(htmx, "text/javascript; charset=utf-8"),
  "icon.svg": asset(icon, "image/svg+xml"),
};

/** The relative address of a file. */
export const assetAddress = (name: keyof typeof assets): string => `?asset=${name}&v=${assets[name].digest}`;
