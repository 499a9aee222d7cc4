// Everyday rates: one producer adds jobs one after the other, and one worker handles them as they come.
import { setTimeout as sleep } from "node:timers/promises";
import type { Case, Suite } from "../../suite.js";
import { percentile } from "../../statistics.js";
import { caseOf, goal, type Row } from "../queue/cases.js";
import type { PourTask, Poured, StartTask, Started } from "./jobs.js";

const ids = ["kit", "bullmq", "bee-queue", "groupmq", "floor with leases"];

interface Variant {
  readonly perSecond: number;
  /** @default 100 */
  readonly concurrency?: number;
  /** @default 0 */
  readonly handlerMs?: number;
  readonly isPoisson?: boolean;
  readonly rounds?: number;
}

const goals = (perSecond: number): readonly (readonly [bullmq: number, bee: number])[] =>
  perSecond <= 100
    ? [
        [2.5, 1],
        [2, 1],
        [1.5, 1],
        [1.3, 1],
      ]
    : [
        [3, perSecond < 4_000 ? 1.3 : 1.4],
        [2, 1],
        [1.5, 1],
        [1.3, 1],
      ];

const steadyCase = ({ perSecond, concurrency = 100, handlerMs = 0, isPoisson = false, rounds = 3 }: Variant): Case => {
  const parts = [
    ...(isPoisson ? ["at random instants"] : []),
    ...(concurrency === 100 ? [] : [`c=${String(concurrency)}`]),
    ...(handlerMs === 0 ? [] : [`handler ${String(handlerMs)} ms`]),
  ];
  const name = [`steady ${perSecond.toLocaleString("en")}/s`, ...parts].join(", ");
  const about = `one producer ${isPoisson ? "at random instants" : "at an even rate"}, one worker with ${String(concurrency)} handlers that ${handlerMs === 0 ? "do nothing" : `take ${String(handlerMs)} ms`}, about 200 bytes`;
  const [server, half, hundredth, client] = goals(perSecond);
  const checks = (pair?: readonly [number, number]) => (pair && parts.length === 0 ? goal(...pair) : []);
  const rows: readonly Row[] = [
    [`${name}: server`, "µs of the server's CPU a job", about, checks(server)],
    [`${name}: start p50`, "ms", `from the call of add to the handler's start; ${about}`, checks(half)],
    [`${name}: start p99`, "ms", `from the call of add to the handler's start; ${about}`, checks(hundredth)],
    [
      `${name}: client`,
      "µs of CPU a job, producer and worker",
      `without the start of the processes; ${about}`,
      checks(client),
    ],
  ];
  return caseOf(rows, { ids, processes: 2, isFinal: true, rounds }, async (team, lab, scale) => {
    const [worker, producer] = [team.worker(0), team.worker(1)];
    await worker.ask("start", { concurrency, handlerMs } satisfies StartTask);
    // The first calls would measure interpreted code.
    await producer.ask("pour", { perSecond: 1_000, ms: 2_000 * scale, isPoisson } satisfies PourTask);
    await sleep(200);
    await worker.ask("started");
    const watched = await lab.watch();
    const ms = (perSecond <= 10 ? 10_000 : 5_000) * scale;
    const poured = await producer.ask<Poured>("pour", { perSecond, ms, isPoisson } satisfies PourTask);
    // For the last jobs.
    await sleep(200 + handlerMs);
    const { cpuMicros, commands } = await watched();
    const started = await worker.ask<Started>("started");
    const jobs = poured.jobs;
    if (started.lateMs.length < jobs)
      throw new Error(`${String(started.lateMs.length)} of ${String(jobs)} jobs started`);
    return {
      values: [
        cpuMicros / jobs,
        percentile(started.lateMs, 0.5),
        percentile(started.lateMs, 0.99),
        (poured.cpuMicros + started.cpuMicros) / jobs,
      ],
      details: {
        commands: commands / jobs,
        "producer µs": poured.cpuMicros / jobs,
        "worker µs": started.cpuMicros / jobs,
        "add p50 ms": percentile(poured.tookMs, 0.5),
        "add p99 ms": percentile(poured.tookMs, 0.99),
      },
    };
  });
};

export const suite: Suite = {
  package: "steady",
  cases: [
    steadyCase({ perSecond: 1 }),
    steadyCase({ perSecond: 10, rounds: 5 }),
    steadyCase({ perSecond: 100, rounds: 5 }),
    steadyCase({ perSecond: 1_000, rounds: 5 }),
    steadyCase({ perSecond: 4_000, rounds: 5 }),
    steadyCase({ perSecond: 10_000 }),
    steadyCase({ perSecond: 100, isPoisson: true }),
    steadyCase({ perSecond: 100, concurrency: 1 }),
    steadyCase({ perSecond: 100, concurrency: 10 }),
    steadyCase({ perSecond: 100, handlerMs: 20 }),
  ],
};
