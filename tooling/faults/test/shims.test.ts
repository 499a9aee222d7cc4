import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { startRedis } from "@kit/testing";
import { afterEach, describe, expect, it } from "vitest";
import { appendFile, cutToSynced } from "../src/lab/power.js";
import { ControlFile, shims, type Shims } from "../src/lab/shims.js";

const folders: string[] = [];
const aFolder = (): string => {
  const folder = mkdtempSync(join(tmpdir(), "kit-shims-"));
  folders.push(folder);
  return folder;
};
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
});

const built = shims();
const hourNanos = 3_600_000_000_000n;

// Where there is no compiler there are no shims, and the faults that need them say that they were not run.
describe.runIf(typeof built !== "string")("The shims", () => {
  const { clockJump, powerCut, noBirth } = built as Shims;

  it("moves the wall clock of a program, and leaves its monotonic clock alone", async () => {
    const control = new ControlFile(join(aFolder(), "clock"));
    control.set(-hourNanos);
    const program = "console.log(JSON.stringify([Date.now(), Number(process.hrtime.bigint()) / 1e6]))";
    const env = { LD_PRELOAD: clockJump, KIT_CLOCK_JUMP: control.path };
    const { stdout } = await promisify(execFile)(process.execPath, ["-e", program], { env });
    const [wall = 0, monotonic = 0] = JSON.parse(stdout) as number[];
    expect(Math.abs(Date.now() - 3_600_000 - wall)).toBeLessThan(10_000);
    expect(Math.abs(Number(process.hrtime.bigint()) / 1e6 - monotonic)).toBeLessThan(10_000);
  });

  it("hides when a file was created", async () => {
    const path = join(aFolder(), "file");
    writeFileSync(path, "text");
    const program = `
      const { promises, statSync } = require("node:fs");
      const births = [statSync, promises.stat, async (path) => await (await promises.open(path)).stat()];
      Promise.all(births.map(async (stat) => (await stat(process.argv[1])).birthtimeMs)).then((all) => console.log(all.join()));
    `;
    const env = { LD_PRELOAD: noBirth };
    const { stdout } = await promisify(execFile)(process.execPath, ["-e", program, path], { env });
    expect(stdout).toBe("0,0,0\n");
  });

  it("moves the clock of a running server, there and back", async () => {
    const control = new ControlFile(join(aFolder(), "clock"));
    await using server = await startRedis({ env: { LD_PRELOAD: clockJump, KIT_CLOCK_JUMP: control.path } });
    const offMs = async (): Promise<number> =>
      Number(((await server.call("TIME")) as string[])[0]) * 1_000 - Date.now();
    expect(Math.abs(await offMs())).toBeLessThan(60_000);
    control.set(hourNanos);
    expect(Math.abs((await offMs()) - 3_600_000)).toBeLessThan(60_000);
    control.set(0n);
    expect(Math.abs(await offMs())).toBeLessThan(60_000);
  });

  it("cuts unsynced bytes, and keeps every write that a server with `always` had acknowledged", async () => {
    const notes = aFolder();
    const delay = new ControlFile(join(notes, "delay"));
    const env = { LD_PRELOAD: powerCut, KIT_POWER_CUT: notes };
    await using server = await startRedis({ persistence: "always", env });
    // Microseconds: a sync takes far longer than all else between two writes.
    delay.set(20_000n);
    const [node] = server.nodes;
    if (!node) throw new Error("There is no server");
    let cutBytes = 0;
    for (let cut = 0; cut < 20 && cutBytes === 0; cut++) {
      // It ends with the server, and says so to who waits.
      const client = server.client({ retryStrategy: () => null });
      // Before the writes: a reply to this comes just after a sync, when nothing is unsynced.
      const file = await appendFile(node);
      let acknowledged = 0;
      const writing = (async () => {
        for (;;) acknowledged = await client.incr("count");
      })().catch(() => undefined);
      // oxlint-disable-next-line kit/no-sleep -- Another moment of a sync in each round.
      await new Promise((resolve) => setTimeout(resolve, 20 + 7 * cut));
      await node.kill();
      await writing;
      cutBytes += cutToSynced(file, notes, 0);
      await node.start();
      expect(Number(await node.call("GET", "count"))).toBeGreaterThanOrEqual(acknowledged);
    }
    // A slow disk: sooner or later something is written and not yet synced.
    expect(cutBytes).toBeGreaterThan(0);
  });

  it("treats every byte of a file that was never synced as unsynced", () => {
    const folder = aFolder();
    mkdirSync(join(folder, "notes"));
    const file = join(folder, "a.aof");
    writeFileSync(file, "0123456789");
    expect(cutToSynced(file, join(folder, "notes"), 0.5)).toBe(5);
    writeFileSync(join(folder, "notes", "a.aof.synced"), "00000000000000000003\n");
    expect(cutToSynced(file, join(folder, "notes"), 0)).toBe(2);
    expect(statSync(file).size).toBe(3);
  });
});
