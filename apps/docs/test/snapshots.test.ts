import { copyFileSync, cpSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { Lab, type Machine } from "./lab.js";
import { countOn, write } from "./load.js";
import { Page } from "./page.js";

const page = new Page("snapshots.md");
const persistence = new Page("persistence.md");
const modes = ["Snapshots", "Append-only, synced before each reply"] as const;

let lab: Lab;
let backups: string;
beforeEach(() => {
  lab = new Lab();
  backups = join(lab.folder, "backups");
  onTestFinished(() => lab[Symbol.asyncDispose]());
});

const attempt = (
  machine: Machine,
  step: string,
  snapshot = "",
): Promise<{ readonly code: number | null; readonly printed: string }> =>
  lab.shell(page, page.step(step), [machine], settingsOf(machine, snapshot));
const type = (machine: Machine, step: string, snapshot = ""): Promise<string> =>
  lab.type(page, page.step(step), [machine], settingsOf(machine, snapshot));
const settingsOf = (machine: Machine, snapshot: string): Record<string, string | number> => ({
  HOST: machine.host,
  PORT: machine.port,
  CONF: machine.conf,
  DATA: machine.data,
  BACKUPS: backups,
  KEEP: 2,
  SNAPSHOT: snapshot,
  BEFORE: join(lab.folder, "before"),
});

const started = async (mode: (typeof modes)[number]): Promise<Machine> => {
  const machine = await lab.machine(persistence.conf(mode));
  await machine.start();
  return machine;
};
/** Three snapshots, of 100, 200 and 300 writes, and 50 more writes after them. */
const withThree = async (machine: Machine): Promise<string[]> => {
  for (let n = 0; n < 3; n += 1) {
    await write(machine, 100);
    await type(machine, "Take one");
  }
  await write(machine, 50);
  return snapshots();
};
const snapshots = (): string[] =>
  readdirSync(backups)
    .filter((name) => name.endsWith(".rdb"))
    .toSorted()
    .map((name) => join(backups, name));
const damage = (file: string): void => {
  const bytes = readFileSync(file);
  const middle = bytes.length >> 1;
  bytes[middle] = (bytes[middle] ?? 0) ^ 1;
  writeFileSync(file, bytes);
};
const newestGood = async (machine: Machine): Promise<string> =>
  (await type(machine, "Find the newest good one")).trimEnd().split("\n").at(-1) ?? "";

describe("Snapshots", () => {
  it.each(modes)("%s: a damaged snapshot is noticed, and the one before it restores", async (mode) => {
    const machine = await started(mode);
    const [, second, third = ""] = await withThree(machine);
    await type(machine, "Verify them all");
    damage(third);
    const { code, printed } = await attempt(machine, "Verify them all");
    expect([code, printed]).toEqual([1, expect.stringContaining(`${basename(third)}: FAILED`)]);
    const found = await newestGood(machine);
    expect(found).toBe(second);
    await type(machine, "Put one snapshot in place", found);
    expect(await countOn(machine)).toBe(200);
    await write(machine, 10);
    await machine.end("SIGTERM");
    await machine.start();
    expect(await countOn(machine)).toBe(210);
    await type(machine, "Take the restore back");
    expect(await countOn(machine)).toBe(350);
  });

  it("a server with append-only on does not look at a snapshot that was only copied", async () => {
    const machine = await started("Append-only, synced before each reply");
    const [first = ""] = await withThree(machine);
    await machine.end("SIGTERM");
    copyFileSync(first, join(machine.data, "dump.rdb"));
    await machine.start();
    expect(await countOn(machine)).toBe(350);
    await machine.end("SIGTERM");
    rmSync(join(machine.data, "appendonlydir"), { recursive: true });
    await machine.start();
    expect(await countOn(machine)).toBe(0);
  });

  it("keeps the newest good ones, however many damaged ones are newer", async () => {
    const machine = await started("Snapshots");
    const [first, second, third = ""] = await withThree(machine);
    await type(machine, "Take one");
    const [, , , fourth] = snapshots();
    damage(third);
    expect(await type(machine, "Keep the newest")).toContain("2 good ones kept");
    expect(snapshots()).toEqual([second, third, fourth]);
    expect(snapshots()).not.toContain(first);
  });

  it("a save that fails gives no snapshot of yesterday under today's name", async () => {
    const machine = await started("Snapshots");
    await write(machine, 100);
    await type(machine, "Take one");
    await write(machine, 100);
    // The folder is another one now, and holds what was saved before; the server's own is gone.
    const folder = join(lab.folder, "yesterday");
    cpSync(machine.data, folder, { recursive: true });
    rmSync(machine.data, { recursive: true });
    renameSync(folder, machine.data);
    expect(await attempt(machine, "Take one")).toMatchObject({ code: 1 });
    expect(snapshots()).toHaveLength(1);
  });

  it("a snapshot that was damaged before it was copied gets no name", async () => {
    const machine = await started("Snapshots");
    await write(machine, 100);
    const step = page.step("Take one");
    const damaging = step.code.replace(/^ {2}cp .*$/m, (copy) => `${copy}\n  truncate -s -9 "$name.part"`);
    expect(damaging).not.toBe(step.code);
    const { code } = await lab.shell(page, { ...step, code: damaging }, [machine], settingsOf(machine, ""));
    expect([code, snapshots()]).toEqual([1, []]);
  });

  it("finds none where all are damaged", async () => {
    const machine = await started("Snapshots");
    await write(machine, 100);
    await type(machine, "Take one");
    for (const snapshot of snapshots()) damage(snapshot);
    expect(await attempt(machine, "Find the newest good one")).toMatchObject({ code: 1 });
  });

  it("has no step that was not tried here", () => {
    expect(page.untried).toEqual([]);
  });
});
