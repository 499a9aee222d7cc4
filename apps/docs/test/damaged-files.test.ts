import { copyFileSync, cpSync, readFileSync, rmSync, truncateSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { eventually } from "@kit/testing";
import { beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { appendOnlyParts, Lab, type Machine, type Settings } from "./lab.js";
import { Page } from "./page.js";

const page = new Page("damaged-files.md");
const persistence = new Page("persistence.md");
const RECORDS = 200;
const IN_BASE = 50;
/** The record that is damaged; it is in the increment. */
const VICTIM = 101;

let lab: Lab;
let trialPort: number;
beforeEach(async () => {
  lab = new Lab();
  onTestFinished(() => lab[Symbol.asyncDispose]());
  trialPort = (await lab.machine("")).port;
});

const settingsOf = (machine: Machine): Settings => ({
  HOST: machine.host,
  PORT: machine.port,
  DATA: machine.data,
  LOG: machine.log,
  COPY: join(lab.folder, "copy"),
  TRIAL: join(lab.folder, "trial"),
  TRIAL_PORT: trialPort,
  WRONG: "sxt",
  RIGHT: "set",
});
const type = (machine: Machine, step: string): Promise<string> =>
  lab.type(page, page.step(step), [machine], settingsOf(machine));
const attempt = (machine: Machine, step: string): Promise<{ readonly code: number | null; readonly printed: string }> =>
  lab.shell(page, page.step(step), [machine], settingsOf(machine));

const fill = async (machine: Machine, from: number, to: number): Promise<void> => {
  const client = machine.client();
  for (let n = from; n <= to; n += 1) await client.set(`record:${n}`, `value-${n}`);
  client.disconnect();
};

/** How many records there are, and how many have a wrong value. */
const records = async (machine: Machine): Promise<string> => {
  const client = machine.client();
  const values = await client.mget(Array.from({ length: RECORDS }, (_, index) => `record:${index + 1}`));
  client.disconnect();
  const there = values.filter((value) => value !== null).length;
  const wrong = values.filter((value, index) => value !== null && value !== `value-${index + 1}`).length;
  return wrong === 0 ? String(there) : `${there}, ${wrong} of them wrong`;
};

/** A stopped machine with 50 records in the base of its append-only file and 150 in the increment. */
const withAppendOnly = async (): Promise<Machine> => {
  const machine = await lab.machine(`${persistence.conf("Snapshots")}aof-timestamp-enabled no\n`);
  await machine.start();
  await fill(machine, 1, IN_BASE);
  await lab.type(persistence, persistence.step("Turn append-only on"), [machine], {
    HOST: machine.host,
    PORT: machine.port,
  });
  await fill(machine, IN_BASE + 1, RECORDS);
  await machine.end("SIGTERM");
  return machine;
};

const withSnapshot = async (): Promise<Machine> => {
  const machine = await lab.machine(persistence.conf("Snapshots"));
  await machine.start();
  await fill(machine, 1, RECORDS);
  await machine.end("SIGTERM");
  return machine;
};

const alter = (file: string, change: (text: string) => string): void => {
  const before = readFileSync(file, "latin1");
  const after = change(before);
  expect(after).not.toBe(before);
  writeFileSync(file, after, "latin1");
};
const record = `$10\r\nrecord:${VICTIM}\r\n$9\r\nvalue-${VICTIM}\r\n`;
const damages: Readonly<Record<string, (incr: string) => void>> = {
  "torn end": (incr) => truncateSync(incr, statSync(incr).size - 7),
  "a wrong letter in the form of a command": (incr) =>
    alter(incr, (text) => text.replace(record, () => record.replace("$10", () => "%10"))),
  "a wrong letter in the end of a line": (incr) =>
    alter(incr, (text) => text.replace(record, () => record.replace(/\r\n$/, "X\n"))),
  "a wrong letter in the name of a command": (incr) =>
    alter(incr, (text) => text.replace(`set\r\n${record}`, () => `sxt\r\n${record}`)),
  "a wrong letter in a value": (incr) => alter(incr, (text) => text.replace(`value-${VICTIM}`, `value-1X1`)),
};

/** The data after `repair`; they were damaged before it. */
const after = async (machine: Machine, repair: () => Promise<unknown>): Promise<string> => {
  await repair();
  const outcome = await machine.start().then(
    () => records(machine),
    () => "does not start",
  );
  await machine.end("SIGKILL");
  rmSync(machine.data, { recursive: true });
  cpSync(join(lab.folder, "copy"), machine.data, { recursive: true });
  return outcome;
};

const head = ["Damage", "The checker", "The server loads", "After `--fix`", "After this page"];
const rows: string[][] = [];
const nothing = (): Promise<void> => Promise.resolve();

describe("Damaged files", () => {
  it.each([
    ["torn end", "torn", ["not valid", "199", "199", "199"], "Take what the server loads"],
    [
      "a wrong letter in the form of a command",
      "",
      ["not valid", "does not start", "100", "199"],
      "Leave out the bad command",
    ],
    ["a wrong letter in the end of a line", "", ["not valid", "200", "100", "200"], "Take what the server loads"],
    [
      "a wrong letter in the name of a command",
      "",
      ["valid", "does not start", "does not start", "200"],
      "Put a command's name right",
    ],
    [
      "a wrong letter in a value",
      "",
      ["valid", "200, 1 of them wrong", "200, 1 of them wrong", "200, 1 of them wrong"],
      "Take what the server loads",
    ],
  ])("%s: --fix cuts everything after it, the page what it has to", async (damage, _, expected, repair) => {
    const machine = await withAppendOnly();
    damages[damage]?.(appendOnlyParts(machine).incr);
    await type(machine, "Copy first");
    const checked = await type(machine, "Check the append-only file");
    const verdict = checked.includes("is not valid") ? "not valid" : "valid";
    const trial = await attempt(machine, "Let a server try a copy");
    const loads = await after(machine, nothing);
    // The trial shows in advance what a start of the real server would do.
    expect(trial.code === 0 ? /^\d+$/m.exec(trial.printed)?.[0] : "does not start").toBe(loads.split(",")[0]);
    const fixed = await after(machine, () => type(machine, "Cut a torn end"));
    const repaired = await after(machine, () => type(machine, repair));
    rows.push([damage, verdict, loads, fixed, repaired]);
    expect([verdict, loads, fixed, repaired]).toEqual(expected);
  });

  it("what --fix would cut is told beforehand", async () => {
    const machine = await withAppendOnly();
    const { incr } = appendOnlyParts(machine);
    copyFileSync(incr, `${lab.folder}/whole`);
    damages["torn end"]?.(incr);
    await type(machine, "Copy first");
    expect(await type(machine, "See what --fix would cut")).toMatch(/:\n1\n$/);
    copyFileSync(`${lab.folder}/whole`, incr);
    damages["a wrong letter in the form of a command"]?.(incr);
    await type(machine, "Copy first");
    expect(await type(machine, "See what --fix would cut")).toMatch(/:\n100\n$/);
  });

  it("--fix refuses to cut an increment that is not the last", async () => {
    const machine = await withAppendOnly();
    await machine.start();
    const client = machine.client();
    await client.config("SET", "rdb-key-save-delay", "30000");
    const { incr } = appendOnlyParts(machine);
    await client.bgrewriteaof();
    await eventually(() => expect(appendOnlyParts(machine).incr).not.toBe(incr));
    await machine.end("SIGKILL");
    damages["torn end"]?.(incr);
    expect(await attempt(machine, "Cut a torn end")).toMatchObject({
      printed: expect.stringContaining("not the last file"),
    });
  });

  it("without its manifest a server starts empty and writes over the base", async () => {
    const machine = await withAppendOnly();
    rmSync(join(machine.data, "appendonlydir/appendonly.aof.manifest"));
    await type(machine, "Copy first");
    const checked = await attempt(machine, "Check the append-only file");
    expect(checked.printed).not.toContain("valid");
    const loads = await after(machine, nothing);
    const repaired = await after(machine, () => type(machine, "Write the manifest again"));
    const tooLate = await after(machine, async () => {
      await machine.start();
      await machine.end("SIGKILL");
      await type(machine, "Write the manifest again");
    });
    expect([loads, repaired, tooLate]).toEqual(["0", "200", "150"]);
    rows.push(["no manifest", "does not find it", `${loads}, and writes over the base`, "–", repaired]);
  });

  it("a damaged snapshot is refused, and read without its checksum as the last resort", async () => {
    const machine = await withSnapshot();
    const snapshot = join(machine.data, "dump.rdb");
    alter(snapshot, (text) => text.replace(`value-${VICTIM}`, "value-1X1"));
    await type(machine, "Copy first");
    expect(await attempt(machine, "Check a snapshot")).toMatchObject({
      printed: expect.stringContaining("RDB CRC error"),
    });
    const loads = await after(machine, nothing);
    expect(await type(machine, "See why it does not start")).toContain("CRC");
    const salvaged = await after(machine, async () => {
      await type(machine, "Read a snapshot without its checksum");
      copyFileSync(join(lab.folder, "trial/salvaged.rdb"), snapshot);
    });
    expect([loads, salvaged]).toEqual(["does not start", "200, 1 of them wrong"]);
    rows.push([
      "a wrong letter in a snapshot",
      "not valid",
      loads,
      "there is none",
      `the snapshot before it, or ${salvaged}`,
    ]);
  });

  it("a torn snapshot cannot be read at all", async () => {
    const machine = await withSnapshot();
    const snapshot = join(machine.data, "dump.rdb");
    truncateSync(snapshot, statSync(snapshot).size - 100);
    await type(machine, "Copy first");
    expect(await attempt(machine, "Check a snapshot")).toMatchObject({ printed: expect.stringContaining("keys read") });
    const loads = await after(machine, nothing);
    expect(loads).toBe("does not start");
    expect(await attempt(machine, "Read a snapshot without its checksum")).not.toMatchObject({ code: 0 });
    rows.push(["a torn snapshot", "not valid", loads, "there is none", "the snapshot before it"]);
  });

  it("the page tells these figures", () => {
    expect(page.figures("damage", [head, ...rows])).toEqual([head, ...rows]);
  });

  it("has no step that was not tried here", () => {
    expect(page.untried).toEqual([]);
  });
});
