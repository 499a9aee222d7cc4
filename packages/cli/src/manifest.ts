import { createRequire } from "node:module";

interface Manifest {
  readonly version: string;
  readonly peerDependencies: Readonly<Record<string, string>>;
}

/** This package's manifest, as it is published. */
export const manifest: Manifest = createRequire(import.meta.url)("../package.json") as Manifest;
