import assert from "node:assert/strict";
import { useRedis } from "@kit/testing";
import fc from "fast-check";
import * as vitest from "vitest";
import { expect, it } from "vitest";
import { planned } from "../src/job/words.js";
import { keyHead, type QueueKeys, queueKeys, takenKey } from "../src/job/keys.js";
import * as looks from "../src/manage/scripts.js";
import * as scripts from "../src/store/scripts/index.js";
import { permanentKeys } from "./harness.js";

const redis = useRedis(vitest, { permanentKeys });

/** `b` and `c` have a concurrency at any time, `a` has none. */
const names = ["a", "b", "c"] as const;
type Name = (typeof names)[number];

type Action =
  | { readonly do: "add"; readonly name: Name; readonly priority: number }
  | { readonly do: "take"; readonly count: number; readonly arrives: "once" | "twice" | "undone" }
  | { readonly do: "limit"; readonly name: "b" | "c"; readonly concurrency: number }
  | { readonly do: "pause" | "resume"; readonly name: Name }
  | { readonly do: "done" | "retry" | "first" | "crash" | "cancel" | "return"; readonly which: number }
  | { readonly do: "remove"; readonly which: number }
  | { readonly do: "prioritise"; readonly which: number; readonly priority: number };

const which = fc.nat({ max: 5 });
const priority = fc.constantFrom(-1, 0, 0, 2);
const action: fc.Arbitrary<Action> = fc.oneof(
  { weight: 6, arbitrary: fc.record({ do: fc.constant("add" as const), name: fc.constantFrom(...names), priority }) },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant("take" as const),
      count: fc.integer({ min: 1, max: 4 }),
      arrives: fc.constantFrom("once" as const, "once" as const, "twice" as const, "undone" as const),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant("limit" as const),
      name: fc.constantFrom("b" as const, "c" as const),
      concurrency: fc.integer({ min: 1, max: 3 }),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constantFrom("pause" as const, "resume" as const),
      name: fc.constantFrom(...names),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constantFrom(
        "done" as const,
        "done" as const,
        "retry" as const,
        "first" as const,
        "crash" as const,
        "cancel" as const,
        "return" as const,
      ),
      which,
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("remove" as const), which }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("prioritise" as const), which, priority }) },
);

/** A job as the model has it. */
interface Modelled {
  readonly id: string;
  readonly name: Name;
  priority: number;
  /** Its lease, while it is active. */
  member?: string;
}

let round = 0;

/** The server, and the model: for each name the ready jobs in their order. */
class Game {
  readonly #keys: QueueKeys = queueKeys(redis.prefix, `mail ${String(round++)}`);
  readonly #head = keyHead(redis.prefix, `mail ${String(round - 1)}`);
  readonly #ready = new Map<Name, Modelled[]>(names.map((name) => [name, []]));
  readonly #active: Modelled[] = [];
  readonly #limits = { a: Infinity, b: 1, c: 2 };
  readonly #paused = new Set<Name>();
  #takes = 0;
  #sequence = 0;

  async start(): Promise<void> {
    await this.#limit(["b 1 -", "c 2 -"].join("\n"));
  }

  async play(action: Action): Promise<void> {
    switch (action.do) {
      case "add":
        return await this.#add(action);
      case "take":
        return await this.#take(action);
      case "limit":
        this.#limits[action.name] = action.concurrency;
        return await this.#limit(`${action.name} ${String(action.concurrency)} -`);
      case "pause":
        this.#paused.add(action.name);
        return await this.#limit(`${action.name} - 1`);
      case "resume":
        this.#paused.delete(action.name);
        return await this.#limit(`${action.name} - 0`);
      case "remove":
      case "prioritise": {
        const all = [...this.#ready.values()].flat();
        const job = all[action.which % Math.max(1, all.length)];
        if (!job) return;
        const { id } = job;
        this.#leave(job);
        if (action.do === "remove") assert.equal(await looks.remove.run(redis.client, this.#keys, { id }), "removed");
        else {
          job.priority = action.priority;
          this.#enqueue(job, false);
          assert.ok(await looks.prioritise.run(redis.client, this.#keys, { id, priority: action.priority }));
        }
        return;
      }
      default:
        return await this.#end(action);
    }
  }

  /** Lets all jobs run. Resolves with how many keys are left. */
  async finish(): Promise<number> {
    for (const name of names) await this.play({ do: "resume", name });
    for (let jobs = this.#count; jobs > 0; jobs = this.#count) {
      await this.play({ do: "take", count: 4, arrives: "once" });
      while (this.#active.length > 0) await this.play({ do: "done", which: 0 });
      assert.ok(this.#count < jobs, "jobs that may begin were not taken");
    }
    const { jobs, waiting, prioritised, suspended, leases, named } = this.#keys;
    return await redis.client.exists(jobs, waiting, prioritised, suspended, leases, named);
  }

  get #count(): number {
    return [...this.#ready.values()].flat().length + this.#active.length;
  }

  #leave(job: Modelled): void {
    this.#ready.set(
      job.name,
      this.#ready.get(job.name)!.filter((other) => other !== job),
    );
  }

  #enqueue(job: Modelled, atFront: boolean): void {
    delete job.member;
    if (atFront) this.#ready.get(job.name)!.unshift(job);
    else this.#ready.get(job.name)!.push(job);
  }

  async #limit(lines: string): Promise<void> {
    const asked = { paused: "", concurrency: "", rate: "", names: "", ofGroups: "", askedAt: "" };
    const askedAt = await looks.limit.run(redis.client, this.#keys, asked);
    await looks.limit.run(redis.client, this.#keys, { ...asked, names: lines, askedAt });
  }

  async #add({ name, priority }: Pick<Modelled, "name" | "priority">): Promise<void> {
    const id = `AAAAAAAAA.${(++this.#sequence).toString(36).padStart(4, "0")}`;
    const word = priority === 0 ? "" : `p${String(priority)}`;
    await scripts.add.run(
      redis.client,
      { ...this.#keys, others: [] },
      {
        ...{ producer: "AAAAAAAAA", sequence: this.#sequence, isNew: "1" },
        plan: id + (word && planned("priority", priority)),
        blobs: [`k1 ${name}${word && ` ${word}`}\n1`],
      },
    );
    this.#enqueue({ id, name, priority }, false);
  }

  #room(name: Name): number {
    if (this.#paused.has(name)) return 0;
    return this.#limits[name] - this.#active.filter((job) => job.name === name).length;
  }

  /** The first jobs of each name that may begin: one for each priority. */
  #firsts(): Modelled[] {
    return names.flatMap((name) => {
      if (this.#room(name) < 1) return [];
      const ready = this.#ready.get(name)!;
      return ready.filter((job) => ready.find((other) => other.priority === job.priority) === job);
    });
  }

  async #step(count: number, others: readonly string[][] = [], flags = ""): Promise<[string, readonly string[]]> {
    const takeId = `worker0${(3 * ++this.#takes).toString(36).padStart(5, "0")}`;
    return [takeId, await this.#send(takeId, count, others, flags)];
  }

  async #send(takeId: string, count: number, others: readonly string[][], flags: string): Promise<readonly string[]> {
    const args = {
      ...{ takeId, count, sure: count, room: "", leaseMs: 600_000, flags, maintenance: "", done: "" },
      bounds: "100 10000 1209600000 67108864",
      others: others.map(([member = "", verdict = "", record = ""]) => ({ member, verdict, record, answer: "" })),
    };
    const keys = { ...this.#keys, taken: takenKey(this.#head, takeId), replies: [] };
    return (await scripts.step.run(redis.client, keys, args)).entries;
  }

  async #take({ count, arrives }: Extract<Action, { do: "take" }>): Promise<void> {
    const [takeId, entries] = await this.#step(count);
    if (arrives === "twice") {
      const before = await this.#state();
      assert.deepEqual(await this.#send(takeId, count, [], ""), entries);
      assert.deepEqual(await this.#state(), before);
    }
    const taken: Modelled[] = [];
    for (const entry of entries) {
      const firsts = this.#firsts();
      const id = entry.replace(/^!-?\d+!/, "");
      const job = firsts.find((one) => one.id === id);
      assert.ok(job, `${id} is not the first of its name and priority, or its name is stopped`);
      assert.equal(job.priority, Math.min(...firsts.map((one) => one.priority)));
      this.#leave(job);
      job.member = takeId + entry;
      this.#active.push(job);
      taken.push(job);
    }
    if (entries.length < count) assert.deepEqual(this.#firsts(), []);
    if (arrives !== "undone") return;
    const undone = { ...this.#keys, taken: takenKey(this.#head, takeId) };
    for (const moved of [entries.length, 0])
      assert.equal(await scripts.recover.run(redis.client, undone, { takeId }), moved);
    for (const job of taken.toReversed()) this.#return(job);
  }

  #return(job: Modelled): void {
    this.#active.splice(this.#active.indexOf(job), 1);
    this.#enqueue(job, true);
  }

  async #end({ do: how, which: index }: Extract<Action, { which: number }>): Promise<void> {
    const job = this.#active[index % Math.max(1, this.#active.length)];
    if (!job?.member) return;
    const { id, member } = job;
    if (how === "crash") {
      await redis.client.zadd(this.#keys.leases, "XX", 1, member);
      await this.#step(0, [], "look");
      return this.#return(job);
    }
    if (how === "return") {
      const args = { members: member, after: "", limited: "0", begun: "" };
      for (const moved of [1, 0]) assert.equal(await scripts.handBack.run(redis.client, this.#keys, args), moved);
      return this.#return(job);
    }
    this.#active.splice(this.#active.indexOf(job), 1);
    if (how === "cancel") {
      const args = { id, header: "", cursor: "0", channel: "", caller: "", pushes: "" };
      const { outcome } = await looks.cancel.run(redis.client, { ...this.#keys, replies: [] }, args);
      assert.equal(outcome, "cancelled");
      return;
    }
    const verdict = { done: "done", retry: "retry=0", first: "hold=0" }[how as "done" | "retry" | "first"];
    await this.#step(0, [[member, verdict, how === "done" ? "" : "1\t0\t{}"]]);
    if (how !== "done") this.#enqueue(job, how === "first");
  }

  async #state(): Promise<unknown[]> {
    const { waiting, prioritised, suspended, named, leases, meta } = this.#keys;
    return await Promise.all([
      redis.client.lrange(waiting, 0, -1),
      ...[prioritised, suspended, named].map((key) => redis.client.zrange(key, "0", "-1", "WITHSCORES")),
      // A repeated take renews its leases.
      redis.client.zrange(leases, "0", "-1"),
      redis.client.hgetall(meta),
    ]);
  }
}

it(
  "takes jobs under limits of their names in order, as many as may start, whatever happens to them",
  { timeout: 240_000 },
  async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(action, { minLength: 10, maxLength: 60 }), async (actions) => {
        const game = new Game();
        await game.start();
        for (const one of actions) await game.play(one);
        expect(await game.finish()).toBe(0);
      }),
      { numRuns: 150 },
    );
  },
);
