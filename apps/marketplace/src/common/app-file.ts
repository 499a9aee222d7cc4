import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const manifest = createRequire(import.meta.url).resolve("@apps/marketplace/package.json");

/** The address of a file of this program, by its path from the folder `apps/marketplace`. */
export const appFile = (path: string): URL => new URL(path, pathToFileURL(manifest));
