import { readFileSync } from "node:fs";

interface Manifest {
  readonly dependencies: Readonly<Record<string, string>>;
}

const manifest = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8")) as Manifest;

/** `<name@version>` of a peer, as this workspace pins it: `redlock4` is `redlock@4.2.0`. */
export const pinned = (dependency: string): string => {
  const pin = manifest.dependencies[dependency];
  if (pin === undefined) throw new Error(`${dependency} is not among the peers`);
  return pin.startsWith("npm:") ? pin.slice("npm:".length) : `${dependency}@${pin}`;
};
