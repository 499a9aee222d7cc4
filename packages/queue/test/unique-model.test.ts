import { useRedis } from "@kit/testing";
import fc from "fast-check";
import * as vitest from "vitest";
import { expect, it } from "vitest";
import { planned } from "../src/job/words.js";
import { answeredKey, keyHead, onceKeys, queueKeys, takenKey } from "../src/job/keys.js";
import * as scripts from "../src/store/scripts/index.js";
import { permanentKeys } from "./harness.js";

const redis = useRedis(vitest, { permanentKeys });

type Action =
  | { readonly do: "add"; readonly key: string; readonly keepsLast: boolean }
  | { readonly do: "take" }
  | { readonly do: "done" | "dead" | "retry" | "crash"; readonly which: number };

const action: fc.Arbitrary<Action> = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({ do: fc.constant("add" as const), key: fc.constantFrom("a", "b"), keepsLast: fc.boolean() }),
  },
  { weight: 3, arbitrary: fc.record({ do: fc.constant("take" as const) }) },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constantFrom("done" as const, "done" as const, "dead" as const, "retry" as const, "crash" as const),
      which: fc.nat({ max: 3 }),
    }),
  },
);

/** A job as the model has it. */
interface Modelled {
  readonly id: string;
  readonly key: string;
  keepsLast: boolean;
  data: number;
  state: "ready" | "active" | "behind" | "gone";
  next?: Modelled | undefined;
}

let round = 0;
let sequence = 0;

/** Plays the actions on the server and on the model; after each both must have the same jobs in the same order. */
const play = async (actions: readonly Action[]): Promise<void> => {
  const name = `mail ${String(round++)}`;
  const keys = queueKeys(redis.prefix, name);
  const head = keyHead(redis.prefix, name);
  const ready: Modelled[] = [];
  const active: { readonly job: Modelled; readonly member: string }[] = [];
  const last = new Map<string, Modelled>();
  let takes = 0;
  const step = (count: number, others: [member: string, verdict: string, record: string][] = []) => {
    const takeId = `worker0${(3 * ++takes).toString(36).padStart(5, "0")}`;
    const args = { takeId, count, sure: count, room: "", leaseMs: 600_000, flags: "look", maintenance: "", done: "" };
    const ended = others.map(([member, verdict, record]) => ({ member, verdict, record, answer: "" }));
    const all = { ...args, bounds: "1 10000 1209600000 67108864", others: ended };
    return scripts.step.run(redis.client, { ...keys, taken: takenKey(head, takeId), replies: [] }, all);
  };
  const goneOf = (job: Modelled): void => {
    job.state = "gone";
    if (job.next?.state === "behind") {
      job.next.state = "ready";
      ready.push(job.next);
    }
  };

  const add = async (key: string, keepsLast: boolean): Promise<void> => {
    const id = `AAAAAAAAA.${(++sequence).toString(36).padStart(4, "0")}`;
    const answered = answeredKey(head, "AAAAAAAAA");
    const { answers } = await scripts.add.run(
      redis.client,
      { ...keys, others: onceKeys(keys, [answered], true) },
      {
        producer: "AAAAAAAAA",
        sequence,
        isNew: "1",
        plan: id + planned("answer") + planned("key", key) + (keepsLast ? planned("replace") : ""),
        blobs: [`k1 job ${keepsLast ? "k" : "u"}${key}\n${String(sequence)}`],
      },
    );
    const held = last.get(key);
    const job: Modelled = { id, key, keepsLast, data: sequence, state: "ready" };
    if (!held || held.state === "gone") {
      last.set(key, job);
      ready.push(job);
      expect(answers).toEqual([{ id, isAdded: true }]);
    } else if (keepsLast && held.state !== "active") {
      held.data = sequence;
      held.keepsLast = true;
      const state = held.state === "behind" ? "delayed" : "ready";
      expect(answers).toEqual([{ id: held.id, isAdded: false, state, isReplaced: true }]);
    } else if (keepsLast && held.keepsLast) {
      job.state = "behind";
      held.next = job;
      last.set(key, job);
      expect(answers).toEqual([{ id, isAdded: true }]);
    } else {
      const state = held.state === "behind" ? "delayed" : held.state;
      expect(answers).toEqual([{ id: held.id, isAdded: false, state }]);
    }
  };

  for (const one of actions) {
    if (one.do === "add") await add(one.key, one.keepsLast);
    else if (one.do === "take") {
      const { entries, blobs } = await step(1);
      const [job] = ready.splice(0, 1);
      expect(entries).toEqual(job ? [job.id] : []);
      expect(blobs.map((blob) => String(blob).split("\n")[1])).toEqual(job ? [String(job.data)] : []);
      if (job) {
        job.state = "active";
        active.push({ job, member: `worker0${(3 * takes).toString(36).padStart(5, "0")}${job.id}` });
      }
    } else if (active.length > 0) {
      const [{ job, member }] = active.splice(one.which % active.length, 1) as [(typeof active)[number]];
      const mark = job.keepsLast ? " leads" : "";
      if (one.do === "crash") {
        await redis.client.zadd(keys.leases, "XX", 1, member);
        await step(0);
        goneOf(job);
      } else if (one.do === "retry") {
        await step(0, [[member, "retry=0", "1\t0\t"]]);
        job.state = "ready";
        ready.push(job);
      } else {
        await step(0, [[member, `${one.do}${mark}`, "1\t0\t"]]);
        goneOf(job);
      }
      // Another one makes a successor ready.
      await step(0);
    }
    expect(await redis.client.lrange(keys.waiting, 0, -1)).toEqual(ready.map(({ id }) => id));
    // Of each key there is at most one that runs.
    const running = active.map(({ job }) => job.key);
    expect(new Set(running).size).toBe(running.length);
  }
};

it("has at most one job of a key, and the last data, as a model of it, whatever comes", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(action, { minLength: 5, maxLength: 40 }), (actions) => play(actions)),
    { numRuns: 100 },
  );
});
