import { once } from "node:events";
import { addFlow } from "@kit/queue/flows";
import { createQueueEvents } from "@kit/queue/events";
import { inspectJob, inspectQueue, listGroups, pauseQueue, removeJob, setLimits } from "@kit/queue/manage";
import { queueMetrics } from "@kit/queue/metrics";
import { reportProgress, writeLog } from "@kit/queue/progress";
import { createSchedules } from "@kit/queue/schedules";
import { createQueue } from "@kit/queue";
import { eventually, useRedis } from "@kit/testing";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { fill, permanentKeys, thing, visit } from "./harness.js";

const redis = useRedis(vitest, { permanentKeys });
const address = () => ({ queue: "mail", prefix: redis.prefix });
const counts = async () => await inspectQueue(redis.client, address());

describe("the page of a queue", () => {
  it("shows how many jobs are in each state, and the jobs of one", async () => {
    const { ids } = await fill(redis);
    const visitor = visit(redis);
    const { text } = await visitor.get(thing("queue", ["mail"], ["state", "dead"]));
    expect(text).toMatch(/1 Waiting .*1 Prioritized .*1 Delayed .*1 Active .*1 Dead/);
    expect(text).toContain(`${ids.dead} bad 1 0`);
    expect(text).toContain("no such address: ann");
    for (const [state, id] of [
      ["waiting", ids.waiting],
      ["prioritised", ids.urgent],
      ["delayed", ids.delayed],
      ["active", ids.active],
    ] as const)
      expect((await visitor.get(thing("queue", ["mail"], ["state", state]))).text).toContain(id);
  });

  it("shows the jobs of groups, and why the group of a job does not start it", async () => {
    const queue = createQueue(redis.client, "mail", { prefix: redis.prefix });
    redis.defer(() => queue.close());
    const id = await queue.add("send", 1, { group: "tenant-7" });
    await pauseQueue(redis.client, address(), { group: "tenant-7" });
    const visitor = visit(redis);
    const { text } = await visitor.get(thing("queue", ["mail"], ["state", "grouped"]));
    expect(text).toMatch(new RegExp(`1 In groups .*${id} send`));
    expect((await visitor.get(thing("job", ["mail", id]))).text).toContain("Group tenant-7 is paused");
  });

  /** Two groups: one is paused, and one could start its job. */
  const grouped = async () => {
    const { queue } = await fill(redis);
    for (const group of ["able", "halted", "halted"]) await queue.add("odd", 1, { group });
    await pauseQueue(redis.client, address(), { group: "halted" });
  };

  it("lists its groups, the halted first, with what keeps them", async () => {
    await grouped();
    const visitor = visit(redis);
    const { text } = await visitor.get(thing("queue", ["mail"]));
    expect(text).toMatch(/Groups 2 .*halted 2 0 of 1 20\d\d-.* paused since 20\d\d-.* able 1 0 of 1 20\d\d-.* ready/);
    const jobs = await visitor.get(thing("queue", ["mail"], ["state", "grouped"], ["group", "halted"]));
    expect(jobs.text).toMatch(/In groups jobs of group halted/);
    expect([...jobs.html.matchAll(/<bdi>odd<\/bdi>/g)]).toHaveLength(2);
    expect((await visitor.get(thing("queue", ["mail"], ["groups", "able"]))).text).toMatch(/Groups 2 .*halted 2/);
  });

  type Visitor = ReturnType<typeof visit>;
  /** The actions that the page offers for groups. */
  const actionsOf = async (visitor: Visitor): Promise<readonly string[]> => {
    const { html } = await visitor.get(thing("queue", ["mail"]));
    return [...html.matchAll(/class="act" href="\?([^"]*)"/g)].map(([, query = ""]) => query.replaceAll("&amp;", "&"));
  };
  /** Opens an action's page, and presses its button. */
  const press = async (visitor: Visitor, query: string): Promise<string> => {
    const { html } = await visitor.get(query);
    const fields = [...html.slice(html.indexOf('method="post"')).matchAll(/name="(o\.[^"]*)"\s+value="([^"]*)"/g)];
    const [, action = ""] = /action="\?([^"]*)"/.exec(html) ?? [];
    const sent = fields.map(([, name = "", value = ""]) => [name, value] as const);
    return (await visitor.post(action.replaceAll("&amp;", "&"), sent)).text;
  };

  it("pauses, resumes and drains one group, after it has asked", async () => {
    await grouped();
    const visitor = visit(redis);
    const stateOf = async (name: string) =>
      (await listGroups(redis.client, address())).groups.find(({ group }) => group === name)?.state;
    expect((await actionsOf(visitor)).map((query) => /do=queue\+(\w+)/.exec(query)?.[1])).toEqual([
      ...["resume", "drain"],
      ...["pause", "drain"],
    ]);
    const [resume = "", drainHalted = "", pauseAble = ""] = await actionsOf(visitor);
    expect(await press(visitor, resume)).toContain("Done.");
    expect(await stateOf("halted")).toBe("ready");
    expect(await press(visitor, pauseAble)).toContain("Done.");
    expect([await stateOf("able"), (await counts()).pausedAt]).toEqual(["paused", null]);
    expect((await visitor.get(drainHalted)).text).toContain("would be deleted 2");
    expect(await press(visitor, drainHalted)).toContain("Done.");
    expect([await stateOf("halted"), (await counts()).grouped]).toEqual([undefined, 1]);
  });

  it("cancels the ready and the active jobs of one group", async () => {
    const queue = createQueue(redis.client, "mail", { prefix: redis.prefix });
    queue.work({ odd: ({ signal }) => once(signal, "abort") }, { concurrency: 1 });
    redis.defer(() => queue.close({ timeoutMs: 5_000 }));
    for (const group of ["able", "able", "other"]) await queue.add("odd", 1, { group });
    await eventually(async () => expect((await counts()).active).toBe(1));
    const visitor = visit(redis);
    const cancel = (await actionsOf(visitor)).find((query) => query.includes("o.active")) ?? "";
    expect((await visitor.get(cancel)).text).toContain("would be deleted 2");
    expect(await press(visitor, cancel)).toContain("Done.");
    // The worker is free for the other group.
    await eventually(async () =>
      expect((await listGroups(redis.client, address())).groups).toMatchObject([{ group: "other", active: 1 }]),
    );
  });

  it("links no action on a group that the person may not run", async () => {
    await grouped();
    const authorize = (_request: Request, action: string): string | false => action !== "queue drain" && "bob";
    const { html } = await visit(redis, { authorize }).get(thing("queue", ["mail"]));
    expect(html).toContain("do=queue+pause&amp;o.group=able");
    expect(html).not.toContain("do=queue+drain&amp;o.group");
  });

  it("shows how long jobs waited and ran, if it has their metrics", async () => {
    const queue = createQueue(redis.client, "mail", { prefix: redis.prefix });
    const worker = queue.work({ quick: () => undefined });
    const source = queueMetrics(redis.client, address(), { workers: [worker] });
    redis.defer(async () => {
      source.close();
      await queue.close();
    });
    const visitor = visit(redis, { metrics: (name) => (name === "mail" ? source : undefined) });
    await eventually(async () => {
      expect((await visitor.get(thing("queue", ["mail"]))).text).toContain("have run no job yet");
    });
    const done = new Promise((resolve) => worker.once("completed", resolve));
    await queue.add("quick");
    await done;
    const { text, html } = await visitor.get(thing("queue", ["mail"]));
    expect(text).toMatch(/quick 1 (?:\d+ ms|\d\.\d s) /);
    expect([...html.matchAll(/<rect /g)]).toHaveLength(32);
  });

  it("shows its workers: process, handlers, and since when", async () => {
    await fill(redis);
    // The worker's next heartbeat reports the running job.
    await eventually(async () => {
      const { text } = await visit(redis).get(thing("queue", ["mail"]));
      expect(text).toContain(`:${String(process.pid)}`);
      expect(text).toMatch(/running 1 of 1 bad, slow/);
    });
  });

  it("lists the worker with the oldest job first", async () => {
    const early = createQueue(redis.client, "mail", { prefix: redis.prefix });
    redis.defer(() => early.close());
    early.work({ other: () => undefined }, { name: "idle" });
    await eventually(async () => {
      expect((await visit(redis).get(thing("queue", ["mail"]))).text).toContain("Workers 1");
    });
    await fill(redis);
    await eventually(async () => {
      const { text } = await visit(redis).get(thing("queue", ["mail"]));
      expect(text).toMatch(/Workers 2 .* bad, slow .* for \d.* idle running/);
    });
  });

  it("shows what keeps its ready jobs from starting", async () => {
    const lonely = createQueue(redis.client, "mail", { prefix: redis.prefix });
    redis.defer(() => lonely.close());
    const why = async (): Promise<string> => {
      const { text } = await visit(redis).get(thing("queue", ["mail"]));
      return /Why do jobs wait\? (.*?)\. The page of a job/.exec(text)?.[1] ?? "they don't";
    };
    const early = await lonely.add("slow", 0, { group: "tenant-7" });
    expect(await why()).toBe("No worker is connected to this queue");
    await pauseQueue(redis.client, address(), { group: "tenant-7" });
    expect(await why()).toBe("No worker is connected to this queue. No group can start its next job");
    await removeJob(redis.client, address(), early);
    expect(await why()).toBe("they don't");
    const { worker } = await fill(redis);
    await eventually(async () => expect(await why()).toBe("The only handler is busy"));
    await setLimits(redis.client, address(), { concurrency: 1 });
    await worker.pause();
    await pauseQueue(redis.client, address());
    await eventually(async () => {
      expect(await why()).toMatch(
        /^The queue is paused, for \d.* The queue runs 1 job at a time, and 1 is active. Every worker is paused or closing$/,
      );
    });
  });

  it("turns pages, and filters by the name of jobs", async () => {
    const queue = createQueue(redis.client, "mail", { prefix: redis.prefix });
    redis.defer(() => queue.close());
    const jobs = Array.from({ length: 45 }, (_, n) => ({
      name: n % 9 === 0 ? "rare" : "usual",
      data: n,
      options: { id: `j${String(n)}` },
    }));
    for (const { name, data, options } of jobs) await queue.add(name, data, options);
    const visitor = visit(redis);
    const first = await visitor.get(thing("queue", ["mail"], ["state", "waiting"]));
    expect(first.text).toContain("1 to 20 of 45");
    expect(first.text).not.toContain("Previous");
    const next = /href="\?([^"]*start=20[^"]*)"[^>]*>Next/.exec(first.html)?.[1] ?? "";
    const second = await visitor.get(next.replaceAll("&amp;", "&"));
    expect(second.text).toContain("Previous");
    expect(second.text).toContain("j20 usual");
    const rare = await visitor.get(thing("queue", ["mail"], ["state", "waiting"], ["job", "rare"]));
    expect([...rare.text.matchAll(/j\d+ rare/g)]).toHaveLength(5);
    expect(rare.text).not.toContain("usual 0");
  });

  it("opens a job by its id from the search form", async () => {
    const { ids } = await fill(redis);
    const visitor = visit(redis);
    const { html } = await visitor.get(thing("queue", ["mail"]));
    expect(html).toMatch(/<input[^>]*id="id"[^>]*name="name"/);
    // The form sends its hidden fields and then the id.
    expect((await visitor.get(`thing=job&name=mail&name=${ids.waiting}`)).status).toBe(200);
    const gone = await visitor.get(thing("job", ["mail", "never-added"]));
    expect([gone.status, gone.text.includes("has no job with this id")]).toEqual([404, true]);
  });
});

describe("the page of a job", () => {
  it("shows attempts, the error with its cause and stack, and when it died", async () => {
    const { ids } = await fill(redis);
    const { text } = await visit(redis).get(thing("job", ["mail", ids.dead]));
    expect(text).toMatch(/dead name bad .* attempts 1 failed of 1/);
    expect(text).toContain("UnrecoverableError: no such address: ann");
    expect(text).toContain("Caused by");
    expect(text).toContain("550 from the server");
    expect(text).toMatch(/died 20\d\d-.* added 20\d\d-/);
  });

  it("shows who runs it, its progress and its log", async () => {
    const queue = createQueue(redis.client, "mail", { prefix: redis.prefix });
    let finish: () => void = () => undefined;
    const held = new Promise<void>((resolve) => {
      finish = resolve;
    });
    redis.defer(async () => {
      finish();
      await queue.close();
    });
    const noted = new Promise<void>((resolve, reject) => {
      queue
        .work(
          {
            video: async (job) => {
              await reportProgress(job, 40);
              await writeLog(job, "frame 400 <b>");
              resolve();
              await held;
            },
          },
          { leaseMs: 1_000 },
        )
        .on("error", reject);
    });
    const id = await queue.add("video", null);
    await noted;
    const visitor = visit(redis);
    await eventually(async () => {
      const { text, html } = await visitor.get(thing("job", ["mail", id]));
      expect(text).toMatch(/active name video/);
      expect(text).toContain(`:${String(process.pid)}`);
      expect(text).toMatch(/started 20\d\d-/);
      expect(html).toContain('value="40"');
      expect(text).toContain("frame 400 <b>");
      expect(html).not.toContain("400 <b>");
    });
  });

  it("shows the recorded events of a job as a timeline, even after the job is gone", async () => {
    const queue = createQueue(redis.client, "mail", { prefix: redis.prefix });
    const reader = createQueueEvents(redis.client, "mail", { prefix: redis.prefix });
    redis.defer(async () => {
      await reader.close();
      await queue.close();
    });
    await reader.ready();
    let runs = 0;
    const worker = queue.work({
      flaky: () => {
        if (runs++ === 0) throw new Error("no <b>luck</b>");
      },
    });
    const done = new Promise((resolve) => worker.once("completed", resolve));
    const other = await queue.add("flaky", null, { delayMs: 3_600_000 });
    const id = await queue.add("flaky", null, { maxAttempts: 2, backoff: { firstMs: 1 } });
    await done;
    const visitor = visit(redis);
    await eventually(async () => {
      const { status, text, html } = await visitor.get(thing("job", ["mail", id]));
      expect(status).toBe(404);
      expect(text).toMatch(
        /Timeline .*Added ready .*Taken by a worker \w{7} .*Attempt 1 failed Error: no <b>luck<\/b>; next attempt in .*Taken by a worker .*Completed/,
      );
      expect([html.includes("<b>luck"), text.includes("Events older than")]).toEqual([false, false]);
    });
    const delayed = await visitor.get(thing("job", ["mail", other]));
    expect(delayed.text).toMatch(/Timeline .*Added delayed/);
    expect(delayed.text).not.toContain("Completed");
  });

  it("reports that older events of a job are not in its timeline", async () => {
    const queue = createQueue(redis.client, "mail", { prefix: redis.prefix });
    const early = await queue.add("slow", 0, { id: "early" });
    const reader = createQueueEvents(redis.client, "mail", { prefix: redis.prefix });
    redis.defer(async () => {
      await reader.close();
      await queue.close();
    });
    await reader.ready();
    expect((await visit(redis).get(thing("job", ["mail", early]))).text).not.toContain("Timeline");
    await visit(redis).post(thing("job", ["mail", early], ["do", "queue reschedule"]), [["o.delay-ms", "60000"]]);
    const { text } = await visit(redis).get(thing("job", ["mail", early]));
    expect(text).toMatch(/Timeline .*Delayed .*Events older than 20\d\d-.* were not recorded/);
  });

  it("draws the children of a job that waits for them", async () => {
    const queue = createQueue(redis.client, "mail", { prefix: redis.prefix });
    redis.defer(() => queue.close());
    const flow = await addFlow(queue, {
      name: "sum",
      data: 0,
      id: "parent",
      children: [
        { name: "part", data: 1, id: "one" },
        { name: "part", data: 2, id: "two" },
      ],
    });
    expect(flow).toBeDefined();
    const { text } = await visit(redis).get(thing("job", ["mail", "parent"]));
    expect(text).toContain("2 children are not finished");
    expect(text).toMatch(/Children 2 open .*one part open .*two part open/);
  });
});

describe("why does it wait", () => {
  const why = async (id: string): Promise<string> => {
    const { text } = await visit(redis).get(thing("job", ["mail", id]));
    return /Why does it wait\? (.*?) Limits and workers/.exec(text)?.[1] ?? "it does not wait";
  };

  it("names a worker that is missing, a handler that is missing, and busy handlers", async () => {
    const lonely = createQueue(redis.client, "mail", { prefix: redis.prefix });
    redis.defer(() => lonely.close());
    const early = await lonely.add("slow", 0);
    expect(await why(early)).toContain("No worker is connected to this queue");
    await removeJob(redis.client, address(), early);
    await lonely.close();
    const { queue, ids } = await fill(redis);
    expect(await why(ids.waiting)).toContain("The only handler is busy");
    const odd = await queue.add("odd", 0);
    expect(await why(odd)).toContain("Of 1 connected worker, none has a handler for odd");
    expect(await why(ids.active)).toBe("it does not wait");
  });

  it("names a pause, a due time and limits, with the time they end", async () => {
    const { queue, ids } = await fill(redis);
    await setLimits(redis.client, address(), { concurrency: 1 });
    expect(await why(ids.waiting)).toContain("The queue runs 1 job at a time, and 1 is active");
    await visit(redis).post(thing("queue", ["mail"], ["do", "queue pause"]));
    expect(await why(ids.waiting)).toMatch(/^The queue is paused, for 0\.\d s/);
    expect(await why(ids.delayed)).toMatch(/It is due in \d+ min. Until 20\d\d-.* UTC. The queue is paused/);
    await visit(redis).post(thing("queue", ["mail"], ["do", "queue pause"]), [["o.name", "slow"]]);
    expect(await why(ids.urgent)).toContain("Jobs named slow are paused");
    expect(queue.name).toBe("mail");
  });
});

describe("actions on a queue", () => {
  it.each([
    ["queue pause", [], { pausedAt: expect.any(Number) as number }],
    ["queue retry", [], { dead: 0 }],
    ["queue drop", [["o.all", "on"]], { dead: 0 }],
    ["queue drain", [], { waiting: 0, prioritised: 0, delayed: 1 }],
    ["queue clean", [["o.state", "delayed"]], { delayed: 0 }],
    [
      "queue limit",
      [
        ["o.concurrency", "3"],
        ["o.rate", "100"],
        ["o.per-ms", "60000"],
      ],
      { concurrency: 3, rate: { count: 100, perMs: 60_000, burst: 10 } },
    ],
  ] as const)("%s shows what would change, and changes it", async (action, fields, then) => {
    await fill(redis);
    const before = await counts();
    const visitor = visit(redis);
    const query = thing("queue", ["mail"], ["do", action]);
    const asked = await visitor.get(`${query}&${new URLSearchParams(fields as never).toString()}`);
    expect(asked.status).toBe(200);
    expect(asked.html).toContain('method="post"');
    expect(await counts()).toMatchObject({
      pausedAt: before.pausedAt,
      dead: before.dead,
      waiting: before.waiting,
      delayed: before.delayed,
    });
    const done = await visitor.post(query, fields);
    expect(done.text).toContain("Done.");
    expect(await counts()).toMatchObject(then);
  });

  it("says what is missing instead of offering a button", async () => {
    await fill(redis);
    const { text, html } = await visit(redis).get(thing("queue", ["mail"], ["do", "queue clean"]));
    expect(text).toContain("Pass state");
    expect(html).not.toContain('method="post"');
  });

  it("offers only what can be done now", async () => {
    const { queue, ids } = await fill(redis);
    const offered = async (kind: string, ...names: string[]): Promise<string[]> => {
      const { html } = await visit(redis).get(thing(kind, names));
      return [...html.matchAll(/do=queue\+([\w+]+)/g)].map(([, action = ""]) => action);
    };
    expect(await offered("job", "mail", ids.dead)).toEqual(["retry", "drop", "edit"]);
    expect(await offered("job", "mail", ids.active)).toEqual(["cancel"]);
    expect(await offered("job", "mail", ids.waiting)).toEqual(["remove", "reschedule", "edit"]);
    expect(await offered("job", "mail", ids.delayed)).toEqual(["promote", "remove", "reschedule", "edit"]);
    expect(await offered("queue", "mail")).toEqual(["retry", "drop", "pause", "drain", "limit", "clean", "purge"]);
    expect(queue.name).toBe("mail");
  });
});

describe("actions on a job", () => {
  const state = async (id: string): Promise<string> => (await inspectJob(redis.client, address(), id)).state;
  it.each([
    ["queue retry", "dead", "ready"],
    ["queue drop", "dead", "none"],
    ["queue cancel", "active", "none"],
    ["queue remove", "waiting", "none"],
    ["queue promote", "delayed", "ready"],
  ] as const)("%s changes a %s job", async (action, job, then) => {
    const { ids } = await fill(redis);
    const visitor = visit(redis);
    const query = thing("job", ["mail", ids[job]], ["do", action]);
    const before = await state(ids[job]);
    expect((await visitor.get(query)).html).toContain('method="post"');
    expect(await state(ids[job])).toBe(before);
    expect((await visitor.post(query)).text).toContain("Done.");
    expect(await state(ids[job])).toBe(then);
  });

  it("reschedules and edits a job by a form", async () => {
    const { ids } = await fill(redis);
    const visitor = visit(redis);
    await visitor.post(thing("job", ["mail", ids.waiting], ["do", "queue reschedule"]), [["o.delay-ms", "60000"]]);
    expect(await state(ids.waiting)).toBe("delayed");
    await visitor.post(thing("job", ["mail", ids.waiting], ["do", "queue edit"]), [["o.max-attempts", "7"]]);
    expect(await inspectJob(redis.client, address(), ids.waiting)).toMatchObject({ maxAttempts: 7 });
    const { status, text } = await visitor.post(thing("job", ["mail", ids.waiting], ["do", "queue edit"]));
    expect([status, text.includes("at least one change")]).toEqual([422, true]);
  });

  it("reports an action that came too late", async () => {
    const { ids } = await fill(redis);
    const visitor = visit(redis);
    const query = thing("job", ["mail", ids.waiting], ["do", "queue remove"]);
    await visitor.post(query);
    expect((await visitor.post(query)).text).toContain("Nothing or only a part was changed.");
  });
});

describe("schedules", () => {
  it("have a page with their next ten runs, and are paused, resumed and run now", async () => {
    const { queue } = await fill(redis);
    const schedules = createSchedules(redis.client, "mail", { prefix: redis.prefix });
    redis.defer(() => schedules.close());
    await schedules.upsert("nightly", { everyMs: 86_400_000, name: "slow", data: {} });
    const visitor = visit(redis);
    expect((await visitor.get(thing("queue", ["mail"]))).text).toMatch(/Schedules 1 .*nightly slow every/);
    const page = await visitor.get(thing("schedule", ["mail", "nightly"]));
    expect([...page.text.matchAll(/20\d\d-\d\d-\d\d \d\d:\d\d:\d\d/g)]).toHaveLength(10);
    const act = async (verb: string) =>
      await visitor.post(thing("schedule", ["mail", "nightly"], ["do", `queue schedule ${verb}`]));
    expect((await act("pause")).text).toContain("Done.");
    expect((await schedules.get("nightly"))?.isPaused).toBe(true);
    expect((await act("resume")).text).toContain("Done.");
    expect((await schedules.get("nightly"))?.isPaused).toBe(false);
    expect((await act("run")).text).toMatch(/Done\. added nightly@/);
    expect(queue.name).toBe("mail");
  });
});
