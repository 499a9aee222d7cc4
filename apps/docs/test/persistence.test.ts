import { appendFileSync, copyFileSync, mkdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { eventually } from "@kit/testing";
import type { Redis } from "ioredis";
import { beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { appendOnlyParts, Lab, type Machine, type Settings } from "./lab.js";
import { countOn, Load, type Loss, write } from "./load.js";
import { Page } from "./page.js";
import { noPowerCut, PowerCut } from "./power-cut.js";

const page = new Page("persistence.md");
const modes = [
  "Nothing",
  "Snapshots",
  "Append-only, synced by the kernel",
  "Append-only, synced each second",
  "Append-only, synced before each reply",
] as const;
type Mode = (typeof modes)[number];

const everySecond: Mode = "Append-only, synced each second";
const duringSync = "the same, while the disk is busy with a sync";

let lab: Lab;
beforeEach(() => {
  lab = new Lab();
  onTestFinished(() => lab[Symbol.asyncDispose]());
});

const settingsOf = (machine: Machine): Settings => ({
  HOST: machine.host,
  PORT: machine.port,
  DATA: machine.data,
  CONF: machine.conf,
  LOG: machine.log,
  RESCUE: lab.folder,
});
const type = (machine: Machine, step: string): Promise<string> =>
  lab.type(page, page.step(step), [machine], settingsOf(machine));
const started = async (mode: Mode, cut?: PowerCut, more = ""): Promise<Machine> => {
  const machine = await lab.machine(`${page.conf(mode)}${more}`, { env: cut?.env ?? {} });
  await machine.start();
  return machine;
};

/** Writes before and after a save, and a load that goes on until the fault; returns what was acknowledged by the save. */
const loadAcrossSave = async (machine: Machine, mode: Mode, load: Load): Promise<number> => {
  await load.lasts(200);
  if (mode !== "Snapshots") return 0;
  const acknowledged = load.acknowledged;
  await type(machine, "Save in the background");
  return acknowledged;
};

type Judge = (loss: Loss, saved: number) => void;
const nothingIsLost: Judge = ({ lost }) => expect(lost).toBe(0);
const everythingIsLost: Judge = ({ lost, acknowledged }) => expect(lost).toBe(acknowledged);
const onlyUnsavedIsLost: Judge = ({ acknowledged, lost }, saved) => {
  expect(lost).toBeGreaterThan(0);
  expect(acknowledged - lost).toBeGreaterThanOrEqual(saved);
  expect(saved).toBeGreaterThan(0);
};
const aMomentIsLost: Judge = ({ acknowledged, lost, ageMs }) => {
  expect(lost).toBeGreaterThan(0);
  expect(lost).toBeLessThan(acknowledged);
  // A second, plus the delay of a busy disk.
  expect(ageMs).toBeLessThan(10_000);
};
const aMomentMayBeLost: Judge = ({ ageMs }) => expect(ageMs).toBeLessThan(12_000);
const judges: Readonly<Record<Mode, { readonly killed: Judge; readonly cut: Judge }>> = {
  Nothing: { killed: everythingIsLost, cut: everythingIsLost },
  Snapshots: { killed: onlyUnsavedIsLost, cut: onlyUnsavedIsLost },
  "Append-only, synced by the kernel": { killed: nothingIsLost, cut: everythingIsLost },
  "Append-only, synced each second": {
    // If syncs cannot be observed, the injection may fall into one.
    killed: noPowerCut === undefined ? nothingIsLost : aMomentMayBeLost,
    cut: aMomentIsLost,
  },
  "Append-only, synced before each reply": { killed: nothingIsLost, cut: nothingIsLost },
};

/** Right after a sync, so that the next one is a second away; only from the second one on they are regular. */
const afterSync = async (machine: Machine, power: PowerCut): Promise<void> => {
  for (let seen = 0; seen < 2; seen += 1) {
    const synced = power.synced(machine);
    await eventually(() => expect(power.synced(machine)).toBeGreaterThan(synced), { intervalMs: 1 });
  }
};

const unableToSave = async (machine: Machine): Promise<Redis> => {
  const client = machine.client();
  await client.bgsave();
  await eventually(() => expect(client.set("another", 1)).rejects.toThrow("MISCONF"));
  return client;
};

describe("Persistence", () => {
  const killed = new Map<Mode, Loss>();
  const cut = new Map<Mode, Loss>();
  let slowed: Loss;

  it.each(modes)("%s: kill -9 takes only what is not written to a file", async (mode) => {
    const power = noPowerCut === undefined ? new PowerCut(lab) : undefined;
    const machine = await started(mode, power);
    const load = new Load(machine.client());
    const saved = await loadAcrossSave(machine, mode, load);
    if (mode === everySecond && power) await afterSync(machine, power);
    await load.lasts(300);
    await load.endsBy(() => machine.end("SIGKILL"));
    await machine.start();
    const loss = await load.lossOn(machine);
    killed.set(mode, loss);
    expect(loss.acknowledged).toBeGreaterThan(10);
    judges[mode].killed(loss, saved);
  });

  describe.runIf(noPowerCut === undefined)("without power", () => {
    it.each(modes)("%s: a power cut takes what is not synced", async (mode) => {
      const power = new PowerCut(lab);
      const machine = await started(mode, power);
      const load = new Load(machine.client());
      const saved = await loadAcrossSave(machine, mode, load);
      if (mode === everySecond) await afterSync(machine, power);
      await load.lasts(700);
      await load.endsBy(() => power.inject(machine));
      await machine.start();
      const loss = await load.lossOn(machine);
      cut.set(mode, loss);
      expect(loss.acknowledged).toBeGreaterThan(10);
      judges[mode].cut(loss, saved);
    });

    it("kill -9 while a sync is under way takes what was acknowledged since it started", async () => {
      const power = new PowerCut(lab);
      const machine = await started(everySecond, power);
      const load = new Load(machine.client());
      await afterSync(machine, power);
      power.slow(1_500);
      const isSyncing = async (): Promise<void> => {
        expect(await machine.client().info("persistence")).toContain("aof_pending_bio_fsync:1");
      };
      await eventually(isSyncing);
      await load.lasts(500);
      await load.endsBy(() => machine.end("SIGKILL"));
      await machine.start();
      slowed = await load.lossOn(machine);
      expect(slowed.lost).toBeGreaterThan(0);
      expect(slowed.ageMs).toBeLessThan(12_000);
    });

    it("the page tells these losses", () => {
      const say = ({ acknowledged, lost, ageMs }: Loss, mode: Mode): string => {
        if (lost === 0) return `0 of ${whole(acknowledged)}`;
        if (lost === acknowledged) return `all of ${whole(acknowledged)}`;
        const since = mode === "Snapshots" ? "all since the last save: " : "";
        return `${since}${whole(lost)} of ${whole(acknowledged)}, the last ${(ageMs / 1_000).toFixed(1)} s`;
      };
      const kind = (cell: string | undefined): string => /^(0|all since|all)\b/.exec(cell ?? "")?.[1] ?? "some";
      const rows = modes.map((mode) => [mode, say(killed.get(mode)!, mode), say(cut.get(mode)!, mode)]);
      rows.splice(modes.indexOf(everySecond) + 1, 0, [duringSync, say(slowed, everySecond), "as above"]);
      const table = page.figures("crash", [["Mode", "Lost by kill -9", "Lost by a power cut"], ...rows]);
      expect(table.slice(1).map(([mode, ...cells]) => [mode, ...cells.map(kind)])).toEqual(
        rows.map(([mode, ...cells]) => [mode, ...cells.map(kind)]),
      );
    });

    it("a stop saves and syncs, unless it is told not to", async () => {
      const lossBy = async (
        mode: Mode,
        stop: (machine: Machine) => Promise<unknown>,
        isCut = false,
      ): Promise<string> => {
        const power = new PowerCut(lab);
        const machine = await started(mode, power);
        await write(machine, 1_000);
        await stop(machine);
        await machine.ended();
        if (isCut) power.cut(machine);
        await machine.start();
        const lost = 1_000 - (await countOn(machine));
        await machine.end("SIGKILL");
        return lost === 1_000 ? "all" : String(lost);
      };
      const shutDown = (machine: Machine): Promise<unknown> => type(machine, "Stop it");
      const noSave = async (machine: Machine): Promise<unknown> =>
        machine
          .client()
          .call("SHUTDOWN", "NOSAVE")
          .catch(() => undefined);
      const rows: string[][] = [];
      for (const mode of modes) {
        const bySignal = await lossBy(mode, (machine) => machine.end("SIGTERM"));
        const byCommand = await lossBy(mode, shutDown);
        expect(byCommand, mode).toBe(bySignal);
        rows.push([mode, byCommand, await lossBy(mode, noSave), await lossBy(mode, shutDown, true)]);
      }
      const head = ["Mode", "SIGTERM, SHUTDOWN", "SHUTDOWN NOSAVE", "SHUTDOWN, then a power cut"];
      expect(page.figures("stop", [head, ...rows])).toEqual([head, ...rows]);
    });
  });

  it("tells how it stands", async () => {
    const machine = await started("Append-only, synced each second");
    const printed = await type(machine, "See how it stands");
    expect(printed).toContain("appendfsync\neverysec");
  });

  it.each(["Save in the background", "Save and let everybody wait"])(
    "%s: what was written before it survives kill -9",
    async (step) => {
      const machine = await started("Snapshots");
      await write(machine, 1_000);
      await type(machine, step);
      await write(machine, 10);
      await machine.end("SIGKILL");
      await machine.start();
      expect(await countOn(machine)).toBe(1_000);
    },
  );

  it("a rewrite keeps everything, and shrinks the file", async () => {
    const machine = await started("Append-only, synced before each reply");
    await write(machine, 5_000);
    const printed = await type(machine, "Rewrite the append-only file");
    const [before = 0, after = 0] = [...printed.matchAll(/aof_current_size:(\d+)/g)].map(([, size]) => Number(size));
    expect(after).toBeLessThan(before / 5);
    await machine.end("SIGKILL");
    await machine.start();
    expect(await countOn(machine)).toBe(5_000);
  });

  it("kill -9 in the middle of a rewrite loses nothing", async () => {
    const machine = await started("Append-only, synced before each reply", undefined, "rdb-key-save-delay 30000\n");
    const client = machine.client();
    await client.mset(Object.fromEntries(Array.from({ length: 100 }, (_, n) => [`filler:${n}`, "x"])));
    await write(machine, 500);
    const { incr } = appendOnlyParts(machine);
    await client.bgrewriteaof();
    await write(machine, 500);
    expect(String(await client.info("persistence"))).toContain("aof_rewrite_in_progress:1");
    expect(appendOnlyParts(machine).incr).not.toBe(incr);
    await machine.end("SIGKILL");
    await machine.start();
    expect(await countOn(machine)).toBe(1_000);
  });

  it("append-only is turned on while the server runs, and stays on", async () => {
    const machine = await started("Snapshots", undefined, "appendfsync always\n");
    await write(machine, 1_000);
    await type(machine, "Turn append-only on");
    await write(machine, 500);
    await machine.end("SIGKILL");
    await machine.start();
    expect(await countOn(machine)).toBe(1_500);
    expect(readFileSync(machine.conf, "utf8")).toContain("appendonly yes");
  });

  it("a restart with append-only over a snapshot starts empty, and its stop empties the snapshot", async () => {
    const machine = await started("Snapshots");
    await write(machine, 1_000);
    await type(machine, "Stop it");
    await machine.ended();
    appendFileSync(machine.conf, "appendonly yes\n");
    await machine.start();
    expect(await countOn(machine)).toBe(0);
    const rescued = await type(machine, "Save the snapshot of a server that started empty");
    expect(rescued).toContain(" 1 keys read");
    await machine.end("SIGTERM");
    expect(statSync(join(machine.data, "dump.rdb")).size).toBeLessThan(200);
    const other = await lab.machine(page.conf("Snapshots"));
    copyFileSync(join(lab.folder, "rescue.rdb"), join(other.data, "dump.rdb"));
    await other.start();
    expect(await countOn(other)).toBe(1_000);
  });

  it("a server that cannot save refuses to stop and to write, until it can", async () => {
    const machine = await started("Snapshots");
    await write(machine, 1_000);
    const obstacle = join(machine.data, "dump.rdb");
    mkdirSync(join(obstacle, "something"), { recursive: true });
    const client = await unableToSave(machine);
    await expect(client.call("SHUTDOWN")).rejects.toThrow("Errors trying to SHUTDOWN");
    await type(machine, "When saving fails");
    rmSync(obstacle, { recursive: true });
    await type(machine, "Save again");
    await client.set("another", 1);
    await machine.end("SIGKILL");
    await machine.start();
    expect(await countOn(machine)).toBe(1_000);
  });

  it("data are got out of a server whose folder is gone", async () => {
    const machine = await started("Snapshots", undefined, "repl-diskless-sync-delay 0\n");
    await write(machine, 1_000);
    rmSync(machine.data, { recursive: true });
    await unableToSave(machine);
    await type(machine, "Get the data out of it");
    await type(machine, "Start it on the rescued data");
    expect(await countOn(machine)).toBe(1_000);
  });

  it("has no step that was not tried here", () => {
    expect(page.untried).toEqual([]);
  });
});

const whole = (n: number): string => n.toLocaleString("en");
