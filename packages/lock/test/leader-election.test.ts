import { readdirSync, readFileSync } from "node:fs";
import { eventually, startRedis } from "@kit/testing";
import { Program } from "@tooling/vitest/helpers";
import { Redis } from "ioredis";
import { beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { lockKeys } from "../src/keys.js";

const folder = new URL("../examples/leader-election/", import.meta.url);
/** Longer than a lease, with the time of a busy machine. */
const patient = { timeoutMs: 30_000 };

let server: Awaited<ReturnType<typeof startRedis>>;
let db: Redis;
beforeEach(async () => {
  server = await startRedis();
  const client = new Redis(server.url, { retryStrategy: () => 20 }).on("error", () => undefined);
  db = client;
  onTestFinished(async () => {
    client.disconnect();
    await server.stop();
  });
});

const spawn = (file: string, env: Readonly<Record<string, string>> = {}): Program => {
  const program = new Program(new URL(file, folder), { REDIS_URL: server.url, ...env });
  onTestFinished(async () => {
    await program.end("SIGKILL");
  });
  return program;
};

const journal = async (key: string): Promise<readonly (readonly [fence: string, text: string])[]> =>
  (await db.lrange(key, "0", "-1")).map((entry) => entry.split(" ") as [string, string]);

const refusals = (programs: readonly Program[], start: string): readonly string[] =>
  programs.flatMap((program) => program.said(start)).filter((text) => text.includes("refused"));

describe("the page", () => {
  it.each(readdirSync(folder))("shows %s as it is", (file) => {
    const page = readFileSync(new URL("../docs/leader-election.md", import.meta.url), "utf8");
    expect(page).toContain(readFileSync(new URL(file, folder), "utf8").trim());
  });
});

describe("of the processes that want to lead", () => {
  let programs: Program[];
  let leader: Program;
  let fence: bigint;
  beforeEach(async () => {
    programs = [1, 2, 3].map(() => spawn("leader.mjs"));
    await nextLeader(0n);
    await othersWait();
  });

  const othersWait = async (): Promise<void> => {
    await eventually(async () => expect(await db.zcard(lockKeys("kit")("leader").queue)).toBe(2), patient);
  };

  /** Waits until one leads by a fencing token above `above` and has done some of its work. */
  const nextLeader = async (above: bigint): Promise<void> => {
    await eventually(async () => {
      const [token = "0", pid] = (await journal("work")).at(-1) ?? [];
      fence = BigInt(token);
      expect(fence).toBeGreaterThan(above);
      leader = programs.find((program) => program.pid === pid)!;
    }, patient);
  };

  const msLeft = (): Promise<number> => db.pttl(lockKeys("kit")("leader").lease);

  /** No work of a leader of the past was tried, and each fencing token has one leader. */
  const expectOneAtATime = async (): Promise<void> => {
    expect(refusals(programs, "no leader")).toEqual([]);
    const tokens = programs.flatMap((program) => program.said("leads"));
    expect(new Set(tokens).size).toBe(tokens.length);
    const leaders = new Map((await journal("work")).map(([token, pid]) => [`${token} ${pid}`, token]));
    expect(new Set(leaders.values()).size).toBe(leaders.size);
  };

  it("another process leads immediately when the leader receives SIGTERM", async () => {
    const [former, before] = [leader, fence];
    await eventually(async () => expect(await msLeft()).toBeGreaterThan(6_000), patient);
    const endedAt = performance.now();
    expect(await former.end("SIGTERM")).toBe(0);
    await nextLeader(before);
    expect(performance.now() - endedAt).toBeLessThan(5_000);
    expect(former.said("no leader")).toEqual([]);
    await expectOneAtATime();
    // The last one, and one that waits, end in order, too.
    for (const program of programs) expect(await program.end("SIGTERM")).toBe(0);
    expect(await db.exists(lockKeys("kit")("leader").lease)).toBe(0);
  });

  it("another leads after the lease when the leader is killed", async () => {
    const before = fence;
    await leader.end("SIGKILL");
    const [killedAt, left] = [performance.now(), await msLeft()];
    await nextLeader(before);
    const ms = performance.now() - killedAt;
    expect(ms).toBeGreaterThan(left - 100);
    expect(ms).toBeLessThan(left + 10_000);
    await expectOneAtATime();
  });

  it("one that was stopped past its lease has its work refused, and waits again", async () => {
    // The first step after SIGCONT is refused, unless the lease's own timer ends the work before it.
    for (let round = 0; refusals(programs, "no leader").length === 0; round++) {
      expect(round).toBeLessThan(8);
      const [former, before] = [leader, fence];
      former.signal("SIGSTOP");
      await nextLeader(before);
      expect(leader).not.toBe(former);
      former.signal("SIGCONT");
      await eventually(() => expect(former.said("no leader")).not.toEqual([]), patient);
    }
    const fences = (await journal("work")).map(([token]) => BigInt(token));
    expect(fences).toEqual(fences.toSorted((a, b) => Number(a - b)));
    await othersWait();
  });

  it("one leads again after an outage, in which acquires started", async () => {
    const [former, before] = [leader, fence];
    const [node] = server.nodes;
    node!.pause();
    // One more process starts in it.
    const late = spawn("leader.mjs");
    programs.push(late);
    await eventually(() => expect(former.said("no leader").length).toBeGreaterThan(1), patient);
    node!.resume();
    await nextLeader(before);
    // Each has its turn, also the one that started meanwhile.
    for (let turns = 0; leader !== late; turns++) {
      expect(turns).toBeLessThan(8);
      const last = fence;
      leader.signal("SIGTERM");
      await nextLeader(last);
    }
    expect(refusals(programs, "no leader")).toEqual([]);
  });

  it("one leads again, by a larger fencing token, after a restart without data", async () => {
    const before = fence;
    await server.nodes[0]!.kill();
    await server.nodes[0]!.start();
    await nextLeader(before);
    expect(fence).toBeGreaterThan(before);
  });
});

describe("the singleton cron", () => {
  it("does a job once a tick, even when the process that does it dies or is stopped", async () => {
    const programs = [1, 2, 3].map(() => spawn("cron.mjs", { EVERY_MS: "9000" }));
    const runs = (): readonly string[] => programs.flatMap((program) => program.said("runs"));

    /** Sends a signal to a process in the middle of its job; resolves with both. */
    const interrupt = async (signal: NodeJS.Signals): Promise<{ program: Program; tick: string }> => {
      for (;;) {
        const known = new Set(runs());
        const found = await eventually(() => {
          for (const program of programs)
            for (const tick of program.said("runs")) if (!known.has(tick)) return { program, tick };
          throw new Error("no job began");
        }, patient);
        found.program.signal(signal);
        if ((await journal("reports")).at(-1)?.[1] !== found.tick) return found;
        // It was done before the signal.
        found.program.signal("SIGCONT");
        if (signal === "SIGKILL") programs.push(spawn("cron.mjs", { EVERY_MS: "9000" }));
      }
    };
    const doneAgain = async (tick: string): Promise<void> => {
      await eventually(async () => expect((await journal("reports")).at(-1)?.[1]).toBe(tick), patient);
      expect(runs().filter((run) => run === tick)).toHaveLength(2);
    };

    const [first] = await eventually(async () => {
      const done = await journal("reports");
      expect(done).toHaveLength(1);
      return done.map(([, tick]) => tick);
    }, patient);
    const killed = await interrupt("SIGKILL");
    expect(runs().filter((tick) => tick === first)).toHaveLength(1);
    await doneAgain(killed.tick);
    const stopped = await interrupt("SIGSTOP");
    await doneAgain(stopped.tick);
    stopped.program.signal("SIGCONT");
    await eventually(() => expect(stopped.program.said("not run").join()).toContain(stopped.tick), patient);

    const done = await journal("reports");
    const ticks = done.map(([, tick]) => tick);
    expect(new Set(ticks).size).toBe(ticks.length);
    const fences = done.map(([token]) => BigInt(token));
    expect(fences).toEqual(fences.toSorted((a, b) => Number(a - b)));
  });
});
