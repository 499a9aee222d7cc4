import { eventually, useRedis } from "@kit/testing";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { addFlow, type FlowJob, readChildren, WaitForChildren } from "../src/flows/index.js";
import { type AnyJobs, type Job, type Queue, UnrecoverableError } from "../src/index.js";
import { setLimits } from "../src/manage/index.js";
import { fixtureOf, permanentKeys } from "./harness.js";

type Flow = FlowJob<AnyJobs>;

/** Parents that waited forever in BullMQ, by the threads that report them. */
describe("a parent does not wait forever", () => {
  const redis = useRedis(vitest, { permanentKeys });
  const fixture = fixtureOf(redis);
  const { make } = fixture;
  const ignored = (job: Flow) => ({ job, onFailure: "ignore" as const });
  const child = (data: unknown): Flow => ({ name: "child", data });
  const breaks = (): never => {
    throw new UnrecoverableError("broken");
  };

  /** Runs parents, which read how their children ended, and children, which fail if their data says so. */
  const working = (queue: Queue, top?: (job: Job) => unknown) => {
    const outcomes: string[][] = [];
    const dead: unknown[] = [];
    const parent = async (job: Job): Promise<unknown> => {
      const { children } = await readChildren(job);
      if (children.length === 0) return await top?.(job);
      outcomes.push(children.map(({ outcome }) => outcome));
      return undefined;
    };
    const worker = queue.work(
      { parent, child: ({ data }) => (data === "fail" ? breaks() : data) },
      { concurrency: 20, abortGraceMs: 100 },
    );
    worker.on("dead", ({ job }) => dead.push(job.name));
    return { worker, outcomes, dead };
  };

  it("whose children fail as expected, with an UnrecoverableError (bullmq#3362)", async () => {
    const queue = make();
    const { outcomes } = working(queue);
    const children = [ignored(child("fail")), ignored(child(1)), ignored(child("fail"))];
    await addFlow(queue, { name: "parent", children } as Flow);
    await eventually(() => expect(outcomes).toEqual([["failed", "completed", "failed"]]));
  });

  it("whose children fail, and were added while it ran (bullmq#3122)", async () => {
    const queue = make();
    const { outcomes } = working(queue, () => {
      throw new WaitForChildren([ignored(child("fail")), ignored(child("fail"))]);
    });
    await queue.add("parent", undefined);
    await eventually(() => expect(outcomes).toEqual([["failed", "failed"]]));
  });

  it("of jobs in the middle, one of which fails with its own child (bullmq#3235)", async () => {
    const queue = make();
    const { outcomes, dead } = working(queue);
    const middle = (leaf: unknown): Flow => ({ name: "parent", children: [child(leaf)] }) as Flow;
    await addFlow(queue, { name: "parent", children: [ignored(middle("fail")), ignored(middle(1))] } as Flow);
    await eventually(() => expect(outcomes.at(-1)).toEqual(["failed", "completed"]));
    expect(outcomes).toEqual([["completed"], ["failed", "completed"]]);
    expect(dead).toEqual(["child"]);
  });

  it("of 15 rate-limited children, while workers come and go (bullmq#2644)", async () => {
    const queue = make();
    await setLimits(fixture.db, fixture.address, { rate: { count: 5, perMs: 100 } });
    await addFlow(queue, { name: "parent", children: Array.from({ length: 15 }, (_, at) => child(at)) } as Flow);
    const first = working(queue);
    const started = new Promise<void>((resolve) => first.worker.on("completed", () => resolve()));
    await started;
    const second = working(queue);
    await first.worker.close();
    await eventually(() => expect(second.outcomes).toEqual([Array.from({ length: 15 }, () => "completed")]));
  });

  it("whose last child fails: it fails as well (bullmq#1333)", async () => {
    const queue = make();
    const { outcomes } = working(queue);
    const { id } = await addFlow(queue, { name: "parent", children: [child(1), child("fail")] } as Flow);
    await eventually(async () => expect((await queue.deadLetters()).map((letter) => letter.id)).toContain(id));
    expect(outcomes).toEqual([]);
  });

  it("of hundreds of children, whose dead letters are dropped together (bullmq#800, #1752)", async () => {
    const queue = make({ deadLetters: { maxCount: 1 } });
    const count = 900;
    const ends: string[] = [];
    queue.work(
      {
        parent: async (job) => {
          for (let start: number | undefined = 0; start !== undefined;) {
            const page: Awaited<ReturnType<typeof readChildren>> = await readChildren(job, { start });
            ends.push(...page.children.map(({ outcome }) => outcome));
            start = page.next;
          }
        },
        child: ({ data }) => ((data as number) % 3 === 0 ? breaks() : undefined),
      },
      { concurrency: 50 },
    );
    const children = Array.from({ length: count }, (_, at) => ignored(child(at)));
    await addFlow(queue, { name: "parent", children } as Flow);
    await eventually(() => expect(ends).toHaveLength(count), { timeoutMs: 20_000 });
    expect(ends.filter((end) => end === "failed")).toHaveLength(count / 3);
    expect((await queue.deadLetters()).length).toBeLessThanOrEqual(1);
  });
});
