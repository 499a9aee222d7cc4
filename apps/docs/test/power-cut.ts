import { spawnSync } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Lab, Machine } from "./lab.js";
import { appendOnlyParts } from "./lab.js";

const source = fileURLToPath(new URL("../../../tooling/faults/shims/power-cut.c", import.meta.url));

/** Why no power cut can be simulated here: it takes Linux and a C compiler. */
export const noPowerCut: string | undefined =
  process.platform !== "linux"
    ? "it takes Linux"
    : spawnSync("cc", ["--version"]).status === 0
      ? undefined
      : "there is no C compiler";

/** A library in the server records the synced parts of its files; a power cut removes the rest. */
export class PowerCut {
  readonly env: Readonly<Record<string, string>>;
  readonly #notes: string;
  readonly #control: string;
  readonly #delay: Buffer = Buffer.alloc(8);

  constructor(lab: Lab) {
    this.#notes = join(lab.folder, "synced");
    mkdirSync(this.#notes, { recursive: true });
    this.#control = join(this.#notes, "delay");
    writeFileSync(this.#control, this.#delay);
    const library = join(lab.folder, "power-cut.so");
    if (!existsSync(library)) {
      const { status, stderr } = spawnSync("cc", ["-O2", "-shared", "-fPIC", "-o", library, source, "-ldl"], {
        encoding: "utf8",
      });
      if (status !== 0) throw new Error(stderr);
    }
    this.env = { LD_PRELOAD: library, KIT_POWER_CUT: this.#notes };
  }

  /** From now on each sync takes this much longer, as on a busy disk. */
  slow(ms: number): void {
    this.#delay.writeBigInt64LE(BigInt(ms) * 1_000n);
    writeFileSync(this.#control, this.#delay, { flag: "r+" });
  }

  /** How much of the append-only file is certainly on the disk. */
  synced(machine: Machine): number {
    return this.#noted(appendOnlyParts(machine).incr);
  }

  /** The machine loses its power: the process is gone, and so are the unsynced parts of its files. */
  async inject(machine: Machine): Promise<void> {
    await machine.end("SIGKILL");
    this.cut(machine);
  }

  cut(machine: Machine): void {
    const parts = join(machine.data, "appendonlydir");
    if (existsSync(parts)) {
      const { incr } = appendOnlyParts(machine);
      truncateSync(incr, Math.min(statSync(incr).size, this.#noted(incr)));
    }
    // A snapshot is written to a file of another name, which is renamed once it is synced.
    const snapshot = join(machine.data, "dump.rdb");
    const wholes = readdirSync(this.#notes).filter((name) => /^temp-\d+\.rdb\.synced$/.test(name));
    const isSynced = (): boolean =>
      wholes.some((name) => Number(readFileSync(join(this.#notes, name), "latin1")) === statSync(snapshot).size);
    if (existsSync(snapshot) && !isSynced()) rmSync(snapshot);
  }

  #noted(file: string): number {
    const note = join(this.#notes, `${file.slice(file.lastIndexOf("/") + 1)}.synced`);
    return existsSync(note) ? Number(readFileSync(note, "latin1")) : 0;
  }
}
