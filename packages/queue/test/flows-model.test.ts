import assert from "node:assert/strict";
import { useRedis } from "@kit/testing";
import fc from "fast-check";
import * as vitest from "vitest";
import { expect, it } from "vitest";
import { redrive } from "../src/dead/scripts.js";
import { addDefaults } from "../src/add/options.js";
import { type FlowJob, FlowPlan } from "../src/flows/plan.js";
import { addFlow, park } from "../src/flows/scripts/index.js";
import { stranded } from "../src/flows/scripts/readers.js";
import { IdSource, partsOf } from "../src/job/ids.js";
import { answeredKey, keyHead, queueKeys, takenKey } from "../src/job/keys.js";
import { blobOf } from "../src/job/payload.js";
import * as looks from "../src/manage/scripts.js";
import * as scripts from "../src/store/scripts/index.js";
import { queueSettings } from "../src/store/options.js";
import type { AnyJobs } from "../src/index.js";
import { permanentKeys } from "./harness.js";

const redis = useRedis(vitest, { permanentKeys });

type Policy = "fail" | "ignore";

/** For each job but the first its edges: jobs before it, and what becomes of them when it fails. */
type Shape = readonly (readonly { readonly above: number; readonly policy: Policy }[])[];

const shape: fc.Arbitrary<Shape> = fc.integer({ min: 0, max: 7 }).chain((count) =>
  fc.tuple(
    ...Array.from({ length: count }, (_, below) =>
      fc.array(
        fc.record({
          above: fc.nat({ max: below }),
          policy: fc.constantFrom<Policy>("fail", "fail", "ignore"),
        }),
        { minLength: 1, maxLength: 3 },
      ),
    ),
  ),
);

type Action =
  | { readonly do: "add"; readonly shape: Shape; readonly priority: number; readonly arrives: number }
  | { readonly do: "take"; readonly count: number }
  | { readonly do: "wait"; readonly which: number; readonly shape: Shape; readonly arrives: number }
  | {
      readonly do: "done" | "refused" | "expired" | "dead" | "crash" | "cancel" | "remove" | "redrive" | "drop";
      readonly which: number;
      readonly arrives: number;
    }
  | { readonly do: "drain" | "late" };

const which = fc.nat({ max: 20 });
const arrives = fc.constantFrom(1, 1, 2);
const action: fc.Arbitrary<Action> = fc.oneof(
  {
    weight: 2,
    arbitrary: fc.record({ do: fc.constant("add" as const), shape, priority: fc.constantFrom(0, 0, 3), arrives }),
  },
  { weight: 3, arbitrary: fc.record({ do: fc.constant("wait" as const), which, shape, arrives }) },
  { weight: 5, arbitrary: fc.record({ do: fc.constant("take" as const), count: fc.integer({ min: 1, max: 6 }) }) },
  {
    weight: 9,
    arbitrary: fc.record({
      do: fc.constantFrom(
        ...(["done", "done", "done", "refused", "expired", "dead", "crash"] as const),
        ...(["cancel", "remove", "redrive", "redrive", "drop"] as const),
      ),
      which,
      arrives,
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constantFrom("drain" as const, "late" as const) }) },
);

/** A job as the model has it. */
interface Modelled {
  readonly id: string;
  readonly parents: { readonly parent: Modelled; readonly policy: Policy; isOpen: boolean }[];
  children: number;
  open: number;
  state: "parked" | "ready" | "active" | "dead" | "gone";
  member?: string;
}

let round = 0;

/** Plays the actions on the server and on the model; after each both must have every job in the same state. */
const play = async (actions: readonly Action[]): Promise<void> => {
  const name = `mail ${String(round++)}`;
  const keys = queueKeys(redis.prefix, name);
  const head = keyHead(redis.prefix, name);
  const ids = new IdSource();
  const settings = { defaults: addDefaults(queueSettings({})), maxPayloadBytes: 1_024 };
  const all: Modelled[] = [];
  let [takes, sequence] = [0, 0];
  let late = (): Promise<unknown> => Promise.resolve();
  const inState = (...states: Modelled["state"][]): Modelled[] => all.filter(({ state }) => states.includes(state));

  const step = async (
    count: number,
    others: readonly (readonly [member: string, verdict: string, record: string, answer: string])[] = [],
    arrivals = 1,
  ): Promise<readonly string[]> => {
    const takeId = `worker0${(3 * ++takes).toString(36).padStart(5, "0")}`;
    const args = { takeId, count, sure: count, room: "", leaseMs: 600_000, flags: "look", maintenance: "", done: "" };
    const ended = others.map(([member, verdict, record, answer]) => ({ member, verdict, record, answer }));
    const request = { ...args, bounds: "1 10000 1209600000 67108864", others: ended };
    const stepKeys = { ...keys, taken: takenKey(head, takeId), replies: [] };
    let entries: readonly string[] = [];
    for (let arrival = 0; arrival < arrivals; arrival++)
      ({ entries } = await scripts.step.run(redis.client, stepKeys, request));
    return entries.map((entry) => takeId + entry);
  };

  const settle = (job: Modelled, hasCompleted: boolean): void => {
    for (const edge of job.parents) {
      const { parent, policy } = edge;
      if (!edge.isOpen || parent.state === "gone") continue;
      edge.isOpen = false;
      parent.open--;
      if (parent.state !== "parked") continue;
      if (!hasCompleted && policy === "fail") {
        parent.state = "dead";
        settle(parent, false);
      } else if (parent.open === 0) parent.state = "ready";
    }
  };
  const ends = (job: Modelled, state: "dead" | "gone", hasCompleted = false): void => {
    job.state = state;
    settle(job, hasCompleted);
  };

  /** Jobs of this shape below a job, for the server and for the model. */
  const below = (root: Modelled, shape: Shape, priority: number) => {
    const nodes = Array.from({ length: shape.length + 1 }, () => ({
      ...{ name: "job", priority },
      children: [] as { job: FlowJob<AnyJobs>; onFailure: Policy }[],
    }));
    const made = nodes.map((_, at): Modelled =>
      at === 0 ? root : { id: "", parents: [], children: 0, open: 0, state: "ready" },
    );
    shape.forEach((edges, child) =>
      edges.forEach(({ above, policy }) => {
        nodes[above]!.children.push({ job: nodes[child + 1]!, onFailure: policy });
        made[child + 1]!.parents.push({ parent: made[above]!, policy, isOpen: true });
        made[above]!.open++;
        made[above]!.children++;
        made[above]!.state = "parked";
      }),
    );
    return { nodes, made };
  };

  const run = async (one: Action): Promise<void> => {
    switch (one.do) {
      case "add": {
        const root: Modelled = { id: "", parents: [], children: 0, open: 0, state: "ready" };
        const { nodes, made } = below(root, one.shape, one.priority);
        const plan = new FlowPlan(nodes[0]! as never, ids, settings);
        const jobs = plan.newJobs();
        const args = {
          ...{ producer: ids.producer, sequence: ++sequence, isNew: sequence === 1 ? "1" : "0" },
          plan: jobs.map(({ id, words }) => `${id!}${words}`).join("\n"),
          blobs: jobs.map((job) => blobOf("k1", job.head, job.payload)),
        };
        const answered = answeredKey(head, ids.producer);
        for (let arrival = 0; arrival < one.arrives; arrival++) {
          const { answers } = await addFlow.run(redis.client, { ...keys, answered }, args);
          assert.deepEqual(answers, [{ id: jobs[0]!.id, isAdded: true }]);
        }
        const idOf = plan.ids as Map<unknown, string>;
        made.forEach((job, at) => all.push(Object.assign(job, { id: idOf.get(nodes[at])! })));
        return;
      }
      case "wait": {
        const active = inState("active");
        const job = active[one.which % Math.max(1, active.length)];
        if (!job || one.shape.length === 0) return;
        const { member = "" } = job;
        const { nodes, made } = below(job, one.shape, 0);
        const { children } = nodes[0]!;
        const plan = new FlowPlan({ children }, ids, settings, job.id);
        const jobs = plan.newJobs();
        const args = {
          ...{ member, children: children.length, plan: jobs.map(({ id, words }) => `${id!}${words}`).join("\n") },
          blobs: jobs.map(({ head: own, payload }) => blobOf("k1", own, payload)),
        };
        late = () => park.run(redis.client, keys, args);
        for (let arrival = 0; arrival < one.arrives; arrival++)
          assert.deepEqual(await late(), { lost: [], cancelled: [], taken: undefined });
        const idOf = plan.ids as Map<unknown, string>;
        made.slice(1).forEach((child, at) => all.push(Object.assign(child, { id: idOf.get(nodes[at + 1])! })));
        return;
      }
      case "late":
        await late();
        return;
      case "take": {
        const members = await step(one.count);
        assert.equal(members.length, Math.min(one.count, inState("ready").length));
        for (const member of members) {
          const job = all.find(({ id }) => id === partsOf(member.slice(12)).id)!;
          assert.equal(job.state, "ready");
          Object.assign(job, { state: "active", member });
        }
        return;
      }
      case "done":
      case "refused":
      case "expired":
      case "dead": {
        const active = inState("active");
        const job = active[one.which % Math.max(1, active.length)];
        if (!job) return;
        const error = '1\t0\t{"name":"Error","message":"no"}';
        const answer = { done: '0 json\n{"ok":true}', refused: '0 refused\n{"name":"Error","message":"big"}' };
        const verdict = one.do === "refused" ? "done leads" : `${one.do} leads`;
        const given = job.parents.length === 0 || one.do === "dead" || one.do === "expired" ? "" : answer[one.do];
        await step(0, [[job.member!, verdict, one.do === "dead" ? error : "", given]], one.arrives);
        ends(job, one.do === "dead" ? "dead" : "gone", one.do === "done");
        return;
      }
      case "crash": {
        const active = inState("active");
        const job = active[one.which % Math.max(1, active.length)];
        if (!job) return;
        await redis.client.zadd(keys.leases, "XX", 1, job.member!);
        await step(0, [], one.arrives);
        ends(job, "dead");
        return;
      }
      case "cancel":
      case "remove": {
        const some = one.do === "cancel" ? inState("active", "parked", "ready") : inState("parked", "ready");
        const job = some[one.which % Math.max(1, some.length)];
        if (!job) return;
        for (let arrival = 0; arrival < one.arrives; arrival++)
          if (one.do === "remove") await looks.remove.run(redis.client, keys, { id: job.id });
          else {
            const args = { id: job.id, header: "", cursor: "0", channel: "", caller: "", pushes: `${head}cancelled` };
            await looks.cancel.run(redis.client, { ...keys, replies: [] }, args);
          }
        ends(job, "gone");
        return;
      }
      case "redrive":
      case "drop": {
        const dead = inState("dead");
        const job = dead[one.which % Math.max(1, dead.length)];
        if (!job) return;
        for (let arrival = 0; arrival < one.arrives; arrival++)
          await redrive.run(redis.client, keys, { verb: one.do, ids: job.id, begun: "", spreadMs: 0 });
        job.state = one.do === "drop" ? "gone" : job.open > 0 ? "parked" : "ready";
        return;
      }
      case "drain": {
        const drained = inState("ready");
        for (const from of ["waiting", "ranked"] as const)
          await looks.drain.run(redis.client, { ...keys, ranked: keys.prioritised }, { from, count: 500, group: "" });
        for (const job of drained) ends(job, "gone");
        return;
      }
    }
  };

  const check = async (): Promise<void> => {
    // A parent whose last child has ended is due, and the next look makes it ready.
    await step(0);
    const { client } = redis;
    const [jobs, waiting, prioritised, delayed, leases, dead] = await Promise.all([
      client.hkeys(keys.jobs),
      client.lrange(keys.waiting, 0, -1),
      client.zrange(keys.prioritised, "0", "-1"),
      client.zrangebyscore(keys.delayed, 2e15, "+inf"),
      client.zrange(keys.leases, "0", "-1"),
      client.zrange(keys.dead, "0", "-1"),
    ]);
    const places = {
      ...{ parked: delayed.map((entry) => partsOf(entry).id), ready: [...waiting, ...prioritised] },
      ...{ active: leases.map((member) => partsOf(member.slice(12)).id), dead },
    };
    const families = new Map<string, string>();
    for (const job of all) if (job.children > 0 && job.state !== "gone") families.set(job.id, String(job.open));
    for (const [state, ids] of Object.entries(places))
      assert.deepEqual(
        ids.toSorted(),
        inState(state as Modelled["state"])
          .map(({ id }) => id)
          .toSorted(),
        state,
      );
    assert.deepEqual(
      jobs.toSorted(),
      all
        .filter(({ state }) => state !== "gone")
        .map(({ id }) => id)
        .toSorted(),
    );
    const stored = Object.entries(await redis.client.hgetall(keys.families));
    expect(new Map(stored.filter(([field]) => !field.includes("\t")))).toEqual(families);
    const edges = all.flatMap(({ parents }) => parents).filter(({ parent }) => parent.state !== "gone");
    const records = stored.filter(([field]) => field.includes("\t"));
    assert.equal(records.length, edges.length);
    assert.equal(
      records.filter(([, value]) => !value.includes("\t")).length,
      edges.filter(({ isOpen }) => isOpen).length,
    );
    const seen = await looks.overview.run(redis.client, keys, {});
    assert.equal(seen.waitingForChildren, inState("parked").length);
    assert.deepEqual([seen.delayed, seen.lost], [0, 0]);
    const bytes = await Promise.all(
      inState("dead").map(
        async ({ id }) => (await redis.client.hstrlen(keys.jobs, id)) + (await redis.client.hstrlen(keys.failures, id)),
      ),
    );
    assert.equal(
      seen.deadBytes,
      bytes.reduce((sum, one) => sum + one, 0),
    );
    assert.deepEqual((await stranded.run(redis.client, keys, { cursor: "0" })).ids, []);
  };

  for (const one of actions) {
    await run(one);
    await check();
  }
  // Whatever is left runs: every parent settles.
  while (inState("ready", "active").length > 0) {
    await run({ do: "take", count: 6 });
    for (const job of inState("active")) await run({ do: "done", which: inState("active").indexOf(job), arrives: 1 });
    await check();
  }
  assert.deepEqual(inState("parked"), []);
};

it("every parent settles when its children have, none early and none twice, whatever becomes of its jobs", async () => {
  await fc.assert(fc.asyncProperty(fc.array(action, { minLength: 5, maxLength: 40 }), play), { numRuns: 40 });
}, 120_000);

it("a parent starts in the step that ends its last child, even if that does not look for due jobs", async () => {
  const keys = queueKeys(redis.prefix, "mail");
  const head = keyHead(redis.prefix, "mail");
  const [parent, child] = ["AAAAAAAAA.0001", "AAAAAAAAA.0002"];
  await addFlow.run(
    redis.client,
    { ...keys, answered: answeredKey(head, "AAAAAAAAA") },
    {
      ...{ producer: "AAAAAAAAA", sequence: 1, isNew: "1" },
      plan: `${parent}\topen=1\troot\n${child}`,
      blobs: ["k1 job f\n1", `k1 job f,f0:${parent}\n1`],
    },
  );
  const step = async (takeId: string, others: readonly object[]): Promise<readonly string[]> => {
    const args = { takeId, count: 1, sure: 1, room: "", leaseMs: 60_000, flags: "", maintenance: "", done: "" };
    const request = { ...args, bounds: "1 10000 1209600000 67108864", others } as never;
    const stepKeys = { ...keys, taken: takenKey(head, takeId), replies: [] };
    return (await scripts.step.run(redis.client, stepKeys, request)).entries;
  };
  expect(await step("worker000000", [])).toEqual([child]);
  const end = { member: `worker000000${child}`, verdict: "done leads", record: "", answer: "0 json\n1" };
  expect(await step("worker000003", [end])).toEqual([parent]);
});
