// Jobs of many groups, of which each runs one job at a time, and the same jobs without a group.
import { atLeast, type Case, type Check, type Suite } from "../../suite.js";
import { caseOf, type Row } from "../queue/cases.js";
import { loadOf, type QueueSetup } from "../queue/implementations.js";
import type { ProcessTask, Rate } from "../queue/jobs.js";

const of = (
  name: string,
  about: string,
  ids: readonly string[],
  setup: QueueSetup,
  goal: readonly Check[] = [],
): Case => {
  const rows: readonly Row[] = [
    [
      `${name}: process`,
      "jobs/s",
      `a handler that does nothing, all jobs queued before it starts, c=100; ${about}`,
      goal,
    ],
    [`${name}: server`, "µs of the server's CPU a job", `added 1,000 at a time, and processed; ${about}`, goal],
    [`${name}: bytes`, "bytes of the server's memory a waiting job", `about 200 bytes of JSON; ${about}`],
  ];
  return caseOf(rows, { ids, setup }, async (team, lab, scale) => {
    const jobs = Math.ceil((loadOf(team.opened) / (setup.groups ? 4 : 1)) * scale);
    // The first jobs would measure a server without scripts.
    await team.ask("fill", { jobs: 100 });
    await team.ask("process", { jobs: 100, concurrency: 100 } satisfies ProcessTask);
    const bytesBefore = await lab.usedBytes();
    const ofAdding = await lab.watch();
    await team.ask("fill", { jobs });
    const added = await ofAdding();
    const bytes = ((await lab.usedBytes()) - bytesBefore) / jobs;
    const ofWorking = await lab.watch();
    const rate = await team.ask<Rate>("process", { jobs, concurrency: 100 } satisfies ProcessTask);
    const worked = await ofWorking();
    return {
      values: [(rate.jobs * 1_000) / rate.elapsedMs, (added.cpuMicros + worked.cpuMicros) / jobs, bytes],
      details: { "add µs": added.cpuMicros / jobs, clientCpuMicros: rate.cpuMicros / rate.jobs },
    };
  });
};

export const suite: Suite = {
  package: "groups",
  cases: [
    of("no groups", "no job has a group", ["kit"], {}),
    of("200 groups", "200 groups in turn", ["kit", "groupmq"], { groups: 200 }, atLeast({ groupmq: 4 })),
    of("a group for each job", "a group for each job", ["kit"], { groups: 1_000_000 }),
  ],
};
