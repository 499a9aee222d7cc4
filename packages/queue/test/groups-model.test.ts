import assert from "node:assert/strict";
import { useRedis } from "@kit/testing";
import fc from "fast-check";
import * as vitest from "vitest";
import { expect, it } from "vitest";
import { planned } from "../src/job/words.js";
import { groupKeys, keyHead, type QueueKeys, queueKeys, takenKey } from "../src/job/keys.js";
import * as looks from "../src/manage/scripts.js";
import { redrive } from "../src/dead/scripts.js";
import { grouped as scripts } from "../src/store/grouped/index.js";
import { permanentKeys } from "./harness.js";

const redis = useRedis(vitest, { permanentKeys });

const groups = ["a", "b", "c"] as const;
type Group = (typeof groups)[number];

type Action =
  | { readonly do: "add"; readonly group: Group; readonly priority: number; readonly how: "" | "front" | "later" }
  | { readonly do: "take"; readonly count: number; readonly arrives: "once" | "twice" | "undone" }
  | { readonly do: "limit"; readonly group: Group | ""; readonly concurrency: number }
  | { readonly do: "retry mode"; readonly retry: "wait" | "pass" }
  | { readonly do: "pause" | "resume"; readonly group: Group }
  | { readonly do: "done" | "retry" | "later" | "first" | "halt" | "dead" | "crash" | "return"; readonly which: number }
  | { readonly do: "cancel" | "remove" | "promote" | "postpone"; readonly which: number }
  | { readonly do: "due" }
  | { readonly do: "drain"; readonly group: Group }
  | { readonly do: "prioritise"; readonly which: number; readonly priority: number };

const which = fc.nat({ max: 9 });
const priority = fc.constantFrom(-1, 0, 0, 0, 2);
const group = fc.constantFrom(...groups);
const of = <const Words extends readonly string[]>(...words: Words): fc.Arbitrary<Words[number]> =>
  fc.constantFrom(...words);
const action: fc.Arbitrary<Action> = fc.oneof(
  { weight: 7, arbitrary: fc.record({ do: of("add"), group, priority, how: of("", "", "", "front", "later") }) },
  {
    weight: 5,
    arbitrary: fc.record({
      do: of("take"),
      count: fc.integer({ min: 1, max: 5 }),
      arrives: of("once", "once", "twice", "undone"),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ do: of("limit"), group: of("", ...groups), concurrency: fc.integer({ min: 1, max: 3 }) }),
  },
  { weight: 1, arbitrary: fc.record({ do: of("retry mode"), retry: of("wait", "pass") }) },
  { weight: 1, arbitrary: fc.record({ do: of("pause", "resume"), group }) },
  {
    weight: 6,
    arbitrary: fc.record({
      do: of("done", "done", "retry", "later", "later", "first", "halt", "dead", "crash", "return"),
      which,
    }),
  },
  { weight: 3, arbitrary: fc.record({ do: of("cancel", "remove", "promote", "postpone"), which }) },
  { weight: 1, arbitrary: fc.record({ do: of("due") }) },
  { weight: 1, arbitrary: fc.record({ do: of("drain"), group }) },
  { weight: 1, arbitrary: fc.record({ do: of("prioritise"), which, priority }) },
);

/** A job as the model has it. */
interface Modelled {
  readonly id: string;
  readonly group: Group;
  priority: number;
  /** Its lease, while it is active. */
  member?: string;
  /** When it is due, if it is delayed. */
  due?: number;
}

const awayFrom = 4e15;
let round = 0;

/** The jobs of each group in their order, and which of them have a place. */
class Model {
  readonly ready = new Map<Group, Modelled[]>(groups.map((one) => [one, []]));
  readonly active: Modelled[] = [];
  /** In the order in which they are due. */
  readonly late: Modelled[] = [];
  readonly held = new Set<Modelled>();
  readonly own = new Map<Group, number>();
  readonly paused = new Set<Group>();
  readonly halted = new Set<Group>();
  usual = 1;
  passes = false;

  get count(): number {
    return this.allReady.length + this.active.length + this.late.length;
  }

  get allReady(): Modelled[] {
    return [...this.ready.values()].flat();
  }

  pick(jobs: readonly Modelled[], index: number): Modelled | undefined {
    return jobs[index % Math.max(1, jobs.length)];
  }

  /** It leaves the place where it is. */
  leave(job: Modelled): void {
    for (const list of [this.ready.get(job.group)!, this.active, this.late])
      if (list.includes(job)) list.splice(list.indexOf(job), 1);
    delete job.member;
    delete job.due;
  }

  /** It also leaves its place. */
  drop(job: Modelled): void {
    this.leave(job);
    this.held.delete(job);
  }

  /** It becomes ready, and has no place any more. */
  enqueue(job: Modelled, atFront: boolean): void {
    this.drop(job);
    const ready = this.ready.get(job.group)!;
    const index = ready.findIndex((other) =>
      atFront ? other.priority >= job.priority : other.priority > job.priority,
    );
    ready.splice(index < 0 ? ready.length : index, 0, job);
  }

  postpone(job: Modelled, due: number): void {
    this.leave(job);
    job.due = due;
    this.late.push(job);
    this.late.sort((one, other) => one.due! - other.due!);
  }

  room(own: Group): number {
    if (this.paused.has(own) || this.halted.has(own)) return 0;
    return (this.own.get(own) ?? this.usual) - [...this.held].filter((job) => job.group === own).length;
  }

  mayBegin(own: Group): boolean {
    return this.room(own) > 0 && this.ready.get(own)!.length > 0;
  }

  /** The groups that have a turn, and whether each may begin. */
  get inTurn(): Record<string, boolean> {
    const present = groups.filter((own) => {
      const isHolding = [...this.held].some((job) => job.group === own);
      return isHolding || this.halted.has(own) || this.ready.get(own)!.length > 0;
    });
    return Object.fromEntries(present.map((own) => [own, this.mayBegin(own)]));
  }
}

/** The server, and the model of it. */
class Game {
  readonly #name = `mail ${String(round++)}`;
  readonly #keys: QueueKeys = queueKeys(redis.prefix, this.#name);
  readonly #head = keyHead(redis.prefix, this.#name);
  readonly #model = new Model();
  #takes = 0;
  #sequence = 0;
  #dueAt = 5e14;
  /** Before all of these, also from now on. */
  #retryIn = 1e14;

  async play(one: Action): Promise<void> {
    await this.#play(one);
    await this.#check();
  }

  /** Lets all jobs run. Resolves with how many keys are left. */
  async finish(): Promise<number> {
    for (const one of groups) await this.play({ do: "resume", group: one });
    for (let jobs = this.#model.count; jobs > 0; jobs = this.#model.count) {
      await this.play({ do: "due" });
      await this.play({ do: "take", count: 5, arrives: "once" });
      while (this.#model.active.length > 0) await this.play({ do: "done", which: 0 });
      assert.ok(this.#model.count < jobs, "jobs that may begin were not taken");
    }
    const { jobs, delayed, leases, grouped, turns, held } = this.#keys;
    return await redis.client.exists(jobs, delayed, leases, grouped, turns, held);
  }

  async #play(one: Action): Promise<void> {
    switch (one.do) {
      case "add":
        return await this.#add(one);
      case "take":
        return await this.#take(one);
      case "limit":
        if (one.group === "") this.#model.usual = one.concurrency;
        else this.#model.own.set(one.group, one.concurrency);
        return await this.#limit(`${one.group} ${String(one.concurrency)} - -`);
      case "retry mode":
        this.#model.passes = one.retry === "pass";
        return await this.#limit(` - ${one.retry} -`);
      case "pause":
        this.#model.paused.add(one.group);
        return await this.#limit(`${one.group} - - 1`);
      case "resume":
        this.#model.paused.delete(one.group);
        this.#model.halted.delete(one.group);
        return await this.#limit(`${one.group} - - 0`);
      case "due": {
        const { delayed } = this.#keys;
        for (const [at, entry] of (await redis.client.zrange(delayed, "0", "-1")).entries())
          await redis.client.zadd(delayed, at + 1, entry);
        await this.#step(0, [], "look");
        for (const job of this.#model.late.splice(0)) this.#model.enqueue(job, this.#model.held.has(job));
        return;
      }
      case "drain": {
        const ready = this.#model.ready.get(one.group)!;
        const keys = { ...this.#keys, ranked: this.#keys.grouped };
        const { deleted } = await looks.drain.run(redis.client, keys, { from: "grouped", count: 2, group: one.group });
        assert.equal(deleted, Math.min(2, ready.length));
        ready.splice(0, 2);
        return;
      }
      case "prioritise": {
        const job = this.#model.pick([...this.#model.allReady, ...this.#model.late], one.which);
        if (!job) return;
        assert.ok(await looks.prioritise.run(redis.client, this.#keys, { id: job.id, priority: one.priority }));
        job.priority = one.priority;
        if (job.due === undefined) this.#model.enqueue(job, false);
        return;
      }
      case "remove":
      case "promote":
      case "postpone":
        return await this.#change(one.do, this.#model.pick([...this.#model.allReady, ...this.#model.late], one.which));
      case "cancel":
        return await this.#cancel(
          this.#model.pick([...this.#model.allReady, ...this.#model.late, ...this.#model.active], one.which),
        );
      default:
        return await this.#end(one.do, this.#model.pick(this.#model.active, one.which));
    }
  }

  async #limit(line: string): Promise<void> {
    const asked = { paused: "", concurrency: "", rate: "", names: "", ofGroups: "", askedAt: "" };
    const askedAt = await looks.limit.run(redis.client, this.#keys, asked);
    await looks.limit.run(redis.client, this.#keys, { ...asked, ofGroups: line, askedAt });
  }

  async #add({ group: own, priority: rank, how }: Extract<Action, { do: "add" }>): Promise<void> {
    const id = `AAAAAAAAA.${(++this.#sequence).toString(36).padStart(4, "0")}`;
    const isFront = how === "front";
    const due = how === "later" ? planned("due", ++this.#dueAt) : "";
    await scripts.add.run(
      redis.client,
      { ...this.#keys, others: groupKeys.map((part) => this.#keys[part]) },
      {
        ...{ producer: "AAAAAAAAA", sequence: this.#sequence, isNew: "1" },
        plan: `${id}${rank === 0 ? "" : planned("priority", rank)}${planned("group", own)}${due}${isFront ? planned("front") : ""}`,
        blobs: [`k1 job${rank === 0 ? "" : ` p${String(rank)}`} g${own}\n1`],
      },
    );
    const job = { id, group: own, priority: rank };
    if (due) this.#model.postpone(job, this.#dueAt);
    else this.#model.enqueue(job, isFront);
  }

  async #step(count: number, others: readonly string[][] = [], flags = "", done = ""): Promise<[string, string[]]> {
    const takeId = `worker0${(3 * ++this.#takes).toString(36).padStart(5, "0")}`;
    return [takeId, await this.#send(takeId, count, others, flags, done)];
  }

  async #send(takeId: string, count: number, others: readonly string[][], flags: string, done = ""): Promise<string[]> {
    const args = {
      ...{ takeId, count, sure: count, room: "", leaseMs: 600_000, flags, maintenance: "", done },
      bounds: "100 10000 1209600000 67108864",
      others: others.map(([member = "", verdict = "", record = ""]) => ({ member, verdict, record, answer: "" })),
    };
    const keys = { ...this.#keys, taken: takenKey(this.#head, takeId), replies: [] };
    return [...(await scripts.step.run(redis.client, keys, args)).entries];
  }

  async #take({ count, arrives }: Extract<Action, { do: "take" }>): Promise<void> {
    const [takeId, entries] = await this.#step(count);
    if (arrives === "twice") assert.deepEqual(await this.#send(takeId, count, [], ""), entries);
    const taken: Modelled[] = [];
    for (const entry of entries) {
      const id = entry.replace(/^!-?\d+@[^!]+!/, "");
      const job = this.#model.allReady.find((one) => one.id === id);
      assert.ok(job, `${id} is not ready`);
      assert.ok(this.#model.mayBegin(job.group), `group ${job.group} may not begin`);
      assert.equal(job, this.#model.ready.get(job.group)![0], `${id} is not the first of its group`);
      this.#model.leave(job);
      job.member = takeId + entry;
      this.#model.active.push(job);
      this.#model.held.add(job);
      taken.push(job);
    }
    const isLeft = groups.some((one) => this.#model.mayBegin(one));
    assert.ok(entries.length === count || !isLeft, "a group may begin");
    if (arrives !== "undone") return;
    const undone = { ...this.#keys, taken: takenKey(this.#head, takeId) };
    for (const moved of [entries.length, 0])
      assert.equal(await scripts.recover.run(redis.client, undone, { takeId }), moved);
    for (const job of taken.toReversed()) this.#model.enqueue(job, true);
  }

  async #change(how: "remove" | "promote" | "postpone", job: Modelled | undefined): Promise<void> {
    if (!job) return;
    const { id } = job;
    const isLate = job.due !== undefined;
    if (how === "remove") {
      assert.equal(await looks.remove.run(redis.client, this.#keys, { id }), "removed");
      this.#model.drop(job);
      return;
    }
    const due = how === "promote" ? "delay=0" : `due=${String(++this.#dueAt)}`;
    const state = await looks.reschedule.run(redis.client, this.#keys, { id, due });
    assert.equal(state, how === "promote" ? "ready" : "delayed");
    if (how === "postpone") this.#model.postpone(job, this.#dueAt);
    else if (isLate) this.#model.enqueue(job, this.#model.held.has(job));
  }

  async #cancel(job: Modelled | undefined): Promise<void> {
    if (!job) return;
    const args = { id: job.id, header: "", cursor: "0", channel: "", caller: "", pushes: "" };
    const { outcome } = await looks.cancel.run(redis.client, { ...this.#keys, replies: [] }, args);
    assert.equal(outcome, job.member === undefined ? "removed" : "cancelled");
    this.#model.drop(job);
  }

  async #end(
    how: "done" | "retry" | "later" | "first" | "halt" | "dead" | "crash" | "return",
    job: Modelled | undefined,
  ): Promise<void> {
    if (job?.member === undefined) return;
    const { member } = job;
    if (how === "crash") {
      await redis.client.zadd(this.#keys.leases, "XX", 1, member);
      await this.#step(0, [], "look");
      return this.#model.enqueue(job, true);
    }
    if (how === "return") {
      const args = { members: member, after: "", limited: "0", begun: "" };
      for (const moved of [1, 0]) assert.equal(await scripts.handBack.run(redis.client, this.#keys, args), moved);
      return this.#model.enqueue(job, true);
    }
    if (how === "done" && job.priority === 0) {
      // Sent twice, as after a lost reply.
      for (let arrival = 0; arrival < 2; arrival++) await this.#step(0, [], "", member);
    } else {
      const verdict = {
        ...{ done: "done", retry: "retry=0", later: `retry=${String(++this.#retryIn)}` },
        ...{ first: "hold=0", halt: "halt=600000", dead: "dead" },
      }[how];
      await this.#step(0, [[member, verdict, how === "done" ? "" : "1\t0\t{}"]]);
    }
    if (how === "halt") this.#model.halted.add(job.group);
    if (how === "first" || how === "halt") return this.#model.enqueue(job, true);
    if (how === "retry") return this.#model.enqueue(job, !this.#model.passes);
    if (how === "later") {
      if (this.#model.passes) this.#model.held.delete(job);
      return this.#model.postpone(job, this.#retryIn);
    }
    this.#model.drop(job);
    if (how === "dead")
      await redrive.run(redis.client, this.#keys, { verb: "drop", ids: job.id, begun: "", spreadMs: 0 });
  }

  /** The stored jobs, places and turns are those of the model. */
  async #check(): Promise<void> {
    const { client } = redis;
    const [stored, held, turns] = await Promise.all([
      client.zrange(this.#keys.grouped, "0", "-1"),
      client.zrange(this.#keys.held, "0", "-1"),
      client.zrange(this.#keys.turns, "0", "-1", "WITHSCORES"),
    ]);
    assert.deepEqual(
      stored.map((member) => member.split("!").at(-1)),
      this.#model.allReady.map(({ id }) => id),
    );
    assert.deepEqual(held, [...this.#model.held].map((job) => `${job.group} ${job.id}`).toSorted());
    const inTurn = turns.flatMap((name, index) =>
      index % 2 === 0 ? [[name, Number(turns[index + 1]) < awayFrom] as const] : [],
    );
    assert.deepEqual(Object.fromEntries(inTurn), this.#model.inTurn);
  }
}

it(
  "takes jobs of groups in order, as many as may start, whatever happens to them, and leaves nothing of an idle group",
  { timeout: 400_000 },
  async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(action, { minLength: 10, maxLength: 60 }), async (actions) => {
        const game = new Game();
        for (const one of actions) await game.play(one);
        expect(await game.finish()).toBe(0);
      }),
      { numRuns: 500 },
    );
  },
);
