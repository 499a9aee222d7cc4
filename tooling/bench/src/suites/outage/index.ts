// What an outage of Redis costs each library: nothing is tuned, and every program does what its documentation says.
import { setTimeout as sleep } from "node:timers/promises";
import type { StartRedisOptions } from "@kit/testing";
import { now } from "@tooling/lab";
import type { Lab, Team } from "../../lab.js";
import { atLeast, atMost, type Case, type Measurement, type Suite } from "../../suite.js";
import { implementations } from "../queue/implementations.js";
import type { Handled, PourTask } from "./jobs.js";

const perSecond = 100;
const beforeMs = 10_000;
const afterMs = 20_000;
/** How long jobs may come after the last add. */
const patienceMs = 30_000;

/** Redis stays down for this long after SIGKILL. */
const restartMs = 5_000;

/** Breaks the server, and resolves with the instant at which it works again. */
type Outage = (lab: Lab, scale: number) => Promise<number>;

const measure = async (team: Team, outage: Promise<number>, scale: number): Promise<Measurement | Error> => {
  const [worker, producer] = [team.worker(0), team.worker(1)];
  try {
    const all: Handled[] = [];
    const startedAt = now();
    const backAt = await outage;
    await sleep(afterMs * scale);
    // Adds that never settle hold up the answer, and no job is added meanwhile.
    const endedAt = now();
    const acknowledged = await producer.ask<readonly number[]>("stopPouring");
    const times = new Map<number, number>();
    for (const until = now() + patienceMs; now() < until; await sleep(500)) {
      const some = await worker.ask<readonly Handled[]>("handled");
      all.push(...some);
      for (const [n] of some) times.set(n, (times.get(n) ?? 0) + 1);
      if (acknowledged.every((n) => times.has(n))) break;
    }
    const rate = (from: number, to: number): number =>
      (all.filter(([, at]) => at >= from && at < to).length * 1_000) / (to - from);
    // If none ran, the time in which none did.
    const first = Math.min(now(), ...all.filter(([, at]) => at > backAt).map(([, at]) => at));
    const last = Math.max(...all.map(([, at]) => at));
    const lost = acknowledged.filter((n) => !times.has(n)).length;
    const doubled = [...times.values()].filter((count) => count > 1).length;
    const brokenAt = startedAt + beforeMs * scale;
    // In the last quarter, when the backlog should be gone.
    const after = rate(endedAt - (afterMs * scale) / 4, endedAt);
    return {
      values: [first - backAt, lost, doubled],
      details: {
        "jobs/s before": rate(startedAt + (beforeMs * scale) / 2, brokenAt),
        "jobs/s during": rate(brokenAt, backAt),
        "jobs/s after": after,
        acknowledged: acknowledged.length,
        "ms until the last job": last - backAt,
      },
    };
  } catch (error) {
    return error as Error;
  }
};

const outageCase = (name: string, about: string, outage: Outage, server?: StartRedisOptions): Case => ({
  entries: [
    {
      name: `${name}: first job after`,
      unit: "ms",
      about: `${about}; if none ran, the time that was observed`,
      goal: [...atLeast({ bullmq: 1, "bee-queue": 1 }), ...atMost(1_500, "max")],
    },
    {
      name: `${name}: jobs lost`,
      unit: "jobs",
      about: `${about}; acknowledged, and not run within 30 s`,
      // Replication is asynchronous: a failover can lose the last writes of any library.
      goal: server?.mode === "sentinel" ? [] : atMost(0, "max"),
    },
    { name: `${name}: jobs run twice`, unit: "jobs", about: `${about}; seen until each acknowledged job has run` },
  ],
  ...implementations.pick(["kit", "bullmq defaults", "bullmq 6.0 defaults", "bee-queue defaults"], {
    deadlineMs: 2_000,
  }),
  rounds: 3,
  processes: 2,
  isFinal: true,
  ...(server && { server }),
  together: async (teams, lab, scale) => {
    for (const team of teams) {
      await team.worker(0).ask("handle", { concurrency: 10 });
      await team.worker(1).ask("pour", { perSecond } satisfies PourTask);
    }
    const back = (async () => {
      await sleep(beforeMs * scale);
      return await outage(lab, scale);
    })();
    return new Map(
      await Promise.all(teams.map(async (team) => [team.implementation, await measure(team, back, scale)] as const)),
    );
  },
});

const rate = "100 jobs/s all the time, handlers do nothing, all libraries on one server at the same time";

export const suite: Suite = {
  package: "outage",
  cases: [
    outageCase("outage of 60 s", `the server is stopped (SIGSTOP) for 60 s; ${rate}`, async ({ node }, scale) => {
      process.kill(node.pid, "SIGSTOP");
      await sleep(60_000 * scale);
      process.kill(node.pid, "SIGCONT");
      return now();
    }),
    outageCase(
      "outage by killed connections",
      `every connection is killed ten times in 5 s; ${rate}`,
      async ({ server }, scale) => {
        for (let left = 10; left > 0; left--) {
          for (const type of ["normal", "pubsub"]) await server.call("CLIENT", "KILL", "TYPE", type, "SKIPME", "yes");
          await sleep(500 * scale);
        }
        return now();
      },
    ),
    outageCase(
      "outage by SIGKILL",
      `the server is killed (SIGKILL) and starts again 5 s later, append-only file synced every second; ${rate}`,
      async ({ node }, scale) => {
        await node.kill();
        await sleep(restartMs * scale);
        await node.start();
        return now();
      },
      { persistence: "everysec" },
    ),
    outageCase(
      "outage by failover",
      `the master is killed, Sentinels promote a replica after about 3 s, one address follows the master; ${rate}`,
      async (lab) => {
        await lab.failOver();
        return now();
      },
      { mode: "sentinel" },
    ),
  ],
};
