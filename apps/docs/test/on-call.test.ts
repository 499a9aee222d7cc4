import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { createLock } from "@kit/lock";
import { createQueue } from "@kit/queue";
import { inspectQueue, listWorkers } from "@kit/queue/manage";
import { createSchedules } from "@kit/queue/schedules";
import { createSemaphore } from "@kit/semaphore";
import { eventually } from "@kit/testing";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Lab, type Machine } from "./lab.js";
import { Page } from "./page.js";

const page = new Page("on-call.md");
const kit = fileURLToPath(new URL("../../../packages/cli/dist/main.js", import.meta.url));

let lab: Lab;
let machine: Machine;
let delayed: string;

/** Waiting, running, failed and delayed jobs, a schedule, and a lock and a semaphore in use. */
const prepare = async (): Promise<void> => {
  const client = machine.client();
  const queue = createQueue<{ email: (data: { to: number }) => void; report: () => void }>(client, "mail");
  const worker = queue.work(
    {
      email: async ({ data, signal }) => {
        if (data.to === 0) throw new Error("550 mailbox unavailable");
        await once(signal, "abort");
      },
      report: () => undefined,
    },
    { abortGraceMs: 0 },
  );
  lab.onClose(() => worker.close({ timeoutMs: 0 }));
  for (let to = 0; to < 5; to++) await queue.add("email", { to });
  delayed = await queue.add("report", undefined, { delayMs: 3_600_000 });
  const schedules = createSchedules(client, "mail");
  await schedules.upsert("nightly", { everyMs: 86_400_000, name: "report" });
  const lock = createLock(client, { holder: "web-1:4711" });
  const semaphore = createSemaphore(client, "partner", { permits: 2, holder: "web-1:4711" });
  lab.onClose(() => Promise.all([lock.close({ timeoutMs: 0 }), semaphore.close({ timeoutMs: 0 })]));
  await lock.acquire("item:42");
  lock.acquire("item:42").catch(() => undefined);
  await Promise.all([semaphore.acquire(), semaphore.acquire()]);
  await eventually(async () => expect((await inspectQueue(client, { queue: "mail" })).dead).toBe(1));
  await eventually(async () => expect((await lock.inspect("item:42")).waiters).toBe(1));
  const longest = async () => (await listWorkers(client, { queue: "mail" })).workers[0]?.longest;
  await eventually(async () => expect(await longest()).toBeTruthy(), { timeoutMs: 15_000 });
};

beforeAll(async () => {
  lab = new Lab();
  machine = await lab.machine('save ""\n');
  await machine.start();
  writeFileSync(lab.program("kit"), `#!/bin/sh\nexec '${process.execPath}' '${kit}' "$@"\n`, { mode: 0o755 });
  await prepare();
});
afterAll(async () => {
  await lab[Symbol.asyncDispose]();
});

const type = (step: string): Promise<string> =>
  lab.type(page, page.step(step), [machine], { REDIS_URL: `redis://${machine.host}:${machine.port}`, JOB: delayed });

describe("The page for somebody on call", () => {
  it.each([
    "What is there",
    "Jobs pile up",
    "Why does my job not run",
    "A job hangs",
    "Dead letters",
    "A schedule is overdue",
    "A lock is held for too long",
    "A semaphore is full",
    "Redis is slow or odd",
    "The server does not answer",
  ])("shows what its commands print: %s", async (step) => {
    expect(await type(step)).not.toBe("");
  });

  it("resumes a paused queue", async () => {
    await lab.shell(page, { name: "pause", code: 'kit queue pause "$QUEUE"', shows: undefined }, [machine], {
      REDIS_URL: `redis://${machine.host}:${machine.port}`,
    });
    expect(await type("The queue is paused")).toContain("paused for");
    expect(await type("Jobs pile up")).not.toContain("paused");
  });

  it("has no other steps", () => {
    expect(page.untried).toEqual([]);
  });
});
