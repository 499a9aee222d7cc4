import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { eventually } from "@kit/testing";
import { describe, expect, it } from "vitest";
import { workspaceFolder } from "../src/lab/paths.js";

const program = join(workspaceFolder, "dist/main.js");

const start = (
  args: readonly string[],
  own: Readonly<Record<string, string>> = {},
): { ended: Promise<{ code: number | null; stdout: string; stderr: string }>; pid: number; stop: () => void } => {
  // These runs share the machine with other tests.
  const env = { ...process.env, KIT_FAULTS_PATIENCE: "5", ...own };
  const child = spawn(process.execPath, [program, ...args], { env, stdio: ["ignore", "pipe", "pipe"] });
  let [stdout, stderr] = ["", ""];
  child.stdout.setEncoding("utf8").on("data", (text: string) => (stdout += text));
  child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text));
  const ended = once(child, "close").then(([code]) => ({ code: code as number | null, stdout, stderr }));
  return { ended, pid: child.pid ?? 0, stop: () => void child.kill("SIGINT") };
};

/** All processes below one. */
const descendants = (pid: number): number[] => {
  const children = readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .filter((name) => {
      try {
        return Number(/\) \S (\d+)/.exec(readFileSync(`/proc/${name}/stat`, "utf8"))?.[1]) === pid;
      } catch {
        return false; // gone meanwhile
      }
    })
    .map(Number);
  return [...children, ...children.flatMap(descendants)];
};

const exists = (pid: number): boolean => {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
};

describe("npm run faults", () => {
  it("prints its usage for --help", async () => {
    const { code, stdout, stderr } = await start(["--help"]).ended;
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    expect(stdout).toMatch(/^npm run faults -- <package> .*--help {6}this text\n$/s);
  });

  it("lists the valid names when it gets an unknown one", async () => {
    const unknown = await start(["nothing"]).ended;
    expect(unknown).toMatchObject({ code: 1, stdout: "" });
    expect(unknown.stderr).toMatch(
      /There is no package "nothing" to run\. There are: (.*, )?core, (.*, )?lock, (.*, )?semaphore, (.*, )?all\./,
    );
    const fault = await start(["lock", "--fault", "boredom"]).ended;
    expect(fault).toMatchObject({ code: 1, stdout: "" });
    expect(fault.stderr).toContain('There is no fault "boredom"');
    const control = await start(["lock", "--control", "nothing"]).ended;
    expect(control).toMatchObject({ code: 1, stdout: "" });
    expect(control.stderr).toContain("There are: unfenced, ");
    const server = await start(["lock", "--server", "/no/such/server", "--fault", "scripts flushed"]).ended;
    expect(server).toMatchObject({ code: 1, stdout: "" });
    expect(server.stderr).toContain("/no/such/server does not run");
    const number = await start(["lock", "--seconds", "0"]).ended;
    expect(number).toMatchObject({ code: 1, stdout: "" });
    expect(number.stderr).toContain("Expected --seconds to be an integer from 1, got 0");
    const client = await start(["lock", "--client", "redis"]).ended;
    expect(client).toMatchObject({ code: 1, stdout: "" });
    expect(client.stderr).toContain('Expected --client to be ioredis or node-redis, got "redis"');
    const fixed = await start(["all", "--client", "node-redis"]).ended;
    expect(fixed).toMatchObject({ code: 1, stdout: "" });
    expect(fixed.stderr).toContain("These workloads need ioredis: logship");
  });

  it("lists faults and controls without running them", async () => {
    const { code, stdout } = await start(["lock", "--list"]).ended;
    expect(code).toBe(0);
    for (const line of ["  worker killed", "  packets dropped", "  unfenced (breaks L2)"])
      expect(stdout).toContain(`${line}\n`);
    const core = await start(["core", "--list"]).ended;
    for (const line of ["  master killed", "  Cluster master killed", "  expects-nothing (breaks C1)"])
      expect(core.stdout).toContain(`${line}\n`);
    // A letter of a lease, and a clock that only leases read.
    for (const kind of ["byte flipped", "server's clock"]) expect(core.stdout).not.toContain(kind);
    const semaphore = await start(["semaphore", "--list"]).ended;
    for (const line of ["  master stopped", "  byte flipped", "  barging (breaks order)"])
      expect(semaphore.stdout).toContain(`${line}\n`);
    const all = await start(["all", "--list"]).ended;
    for (const one of [core.stdout, stdout, semaphore.stdout]) expect(all.stdout).toContain(one);
  });

  it.each(["ioredis", "node-redis"])("prints one object, in its documented shape, of a run on %s", async (client) => {
    const args = ["--fault", "scripts flushed", "--seconds", "4", "--seed", "5", "--client", client, "--json"];
    const { code, stdout, stderr } = await start(["lock", ...args]).ended;
    expect(stderr).toBe("");
    const report: unknown = JSON.parse(stdout);
    expect(report).toMatchObject({ package: "lock", client, seconds: 4, seed: 5, violations: 0, controls: [] });
    // Too few operations on a machine that is busy with others are a failure, too, and all that may be one here.
    const { failures } = report as { failures: string[] };
    expect(failures.filter((failure) => !failure.includes("operations"))).toEqual([]);
    expect(code).toBe(failures.length === 0 ? 0 : 1);
    expect(report).toMatchObject({
      redis: expect.stringMatching(/^(redis|valkey) \d/) as string,
      operations: expect.any(Number) as number,
      faults: { "scripts flushed": expect.any(Number) as number },
      invariants: expect.arrayContaining([
        { name: "L2", checked: expect.any(Number) as number, violated: 0 },
      ]) as unknown[],
      recoveryMs: {
        "scripts flushed": {
          p50: expect.any(Number) as number,
          p99: expect.any(Number) as number,
          max: expect.any(Number) as number,
        },
      },
    });
  });

  it("has its own network for the rules of a firewall, or says why not", async () => {
    const { code, stdout } = await start(["lock", "--fault", "packets dropped", "--seconds", "4", "--json"]).ended;
    const report = JSON.parse(stdout) as {
      notRun: Record<string, string>;
      faults: Record<string, number>;
      broken: unknown[];
    };
    expect(report.broken).toEqual([]);
    const kind = "packets dropped";
    const tookEffect = (report.faults[kind] ?? 0) > 0;
    const saysWhyNot = typeof report.notRun[kind] === "string" && code === 1;
    expect(saysWhyNot).toBe(!tookEffect);
  });

  it("reports the violations of a control, and fails", async () => {
    const { code, stdout } = await start(["lock", "--control", "grant-while-held", "--json"]).ended;
    expect(code).toBe(1);
    const report = JSON.parse(stdout) as { violations: number };
    expect(report.violations).toBeGreaterThan(0);
    expect(report).toMatchObject({ package: "lock", controls: [{ name: "grant-while-held", caught: true }] });
  });

  it("leaves no process and no folder when it is interrupted", async () => {
    // Others on this machine may have theirs in the usual place.
    const folder = mkdtempSync(join(tmpdir(), "kit-interrupted-"));
    const run = start(["lock", "--fault", "worker stopped", "--seconds", "60"], { TMPDIR: folder });
    let below: number[] = [];
    await eventually(
      () => {
        below = descendants(run.pid);
        // A server, and its workers.
        expect(below.length).toBeGreaterThan(7);
      },
      { timeoutMs: 20_000 },
    );
    expect(readdirSync(folder)).not.toEqual([]);
    run.stop();
    expect((await run.ended).code).toBe(130);
    await eventually(() => expect(below.filter(exists)).toEqual([]));
    expect(readdirSync(folder)).toEqual([]);
    rmSync(folder, { recursive: true });
  });
});
