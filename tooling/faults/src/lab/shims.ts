import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import { cacheFolder, workspaceFolder } from "./paths.js";

/** Eight bytes that a shim has mapped. A write takes effect at once in the running program. */
export class ControlFile {
  readonly path: string;
  #value = 0n;

  constructor(path: string) {
    this.path = path;
    writeFileSync(path, this.#bytes());
  }

  get value(): bigint {
    return this.#value;
  }

  set(value: bigint): void {
    this.#value = value;
    const file = openSync(this.path, "r+");
    writeSync(file, this.#bytes());
    closeSync(file);
  }

  #bytes(): Buffer {
    const bytes = Buffer.alloc(8);
    bytes.writeBigInt64LE(this.#value);
    return bytes;
  }
}

/** Libraries for LD_PRELOAD. */
export interface Shims {
  readonly clockJump: string;
  readonly powerCut: string;
  readonly noBirth: string;
}

const compile = (name: string): string => {
  const source = join(workspaceFolder, "shims", `${name}.c`);
  const digest = createHash("sha1").update(readFileSync(source)).digest("hex").slice(0, 12);
  const library = join(cacheFolder, `${name}-${process.arch}-${digest}.so`);
  if (existsSync(library)) return library;
  mkdirSync(cacheFolder, { recursive: true });
  const part = `${library}.${String(process.pid)}.part`;
  const { status, error, stderr } = spawnSync("cc", ["-O2", "-shared", "-fPIC", "-o", part, source, "-ldl"], {
    encoding: "utf8",
  });
  if (error || status !== 0) throw new Error(`no C compiler: ${error?.message ?? stderr.trim()}`);
  renameSync(part, library);
  return library;
};

let found: Shims | string | undefined;

/** Compiles the shims if needed. Returns the reason as text if that is impossible. */
export const shims = (): Shims | string => {
  if (found !== undefined) return found;
  if (process.platform !== "linux") return (found = "shims need Linux");
  try {
    return (found = {
      clockJump: compile("clock-jump"),
      powerCut: compile("power-cut"),
      noBirth: compile("no-birth"),
    });
  } catch (error) {
    return (found = error instanceof Error ? error.message : String(error));
  }
};

/** The reason why there are no shims; undefined if there are. */
export const noShims = (): string | undefined => {
  const built = shims();
  return typeof built === "string" ? built : undefined;
};
