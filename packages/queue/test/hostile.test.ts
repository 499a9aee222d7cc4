import { useRedis } from "@kit/testing";
import * as vitest from "vitest";
import { expect, it } from "vitest";
import * as adoption from "../src/adopt/scripts/index.js";
import * as deadScripts from "../src/dead/scripts.js";
import * as flows from "../src/flows/scripts/index.js";
import * as flowSlices from "../src/slices/scripts.js";
import * as history from "../src/history/scripts/index.js";
import * as workers from "../src/workers/scripts/index.js";
import { groupKeys, keyHead, onceKeys, queueKeys, repliesKey, takenKey } from "../src/job/keys.js";
import * as cleaning from "../src/manage/cleaning.js";
import * as looks from "../src/manage/scripts.js";
import * as notes from "../src/notes/scripts/index.js";
import * as schedules from "../src/schedules/scripts/index.js";
import { grouped } from "../src/store/grouped/index.js";
import * as plain from "../src/store/scripts/index.js";
import { permanentKeys } from "./harness.js";

const redis = useRedis(vitest, { permanentKeys });
const all = { ...plain, ...grouped, ...deadScripts };

/** Ids that no door lets in, and those that look like something else. */
const ids = ["!room", "!5!x", "!-99999999999999999999!y", "!", "a b", "50%", "%zz", "", "tab\tbed", "AAAAAAAAA.0001"];

/** What may be stored of a job: whole, and damaged in each place where a script reads it. */
const blobs = [
  "",
  "\n",
  "k1",
  "k1 job",
  "k1 job kkey",
  "k1 job p99999999999999999999\n1",
  "k1 job p-\n1",
  "!! job e5 kkey\n1",
  "k1 job e5@99999999999999999999999 kkey n!room\n1",
  "k1 job kkey na%20b e5\n1",
  "k1 job nAAAAAAAAA.0001 ukey\n1",
  "k1 job f,f0:other,i1:other,f0:%21room\n1",
  "k1 job f,f99999999999999999999:%ZZ,x:y,f0:\n1",
  "k1 job%ZZ e1 kkey\n1",
  "k1 job g\n1",
  "k1 job gg kkey\n1",
  "k1 job g!a@!b p5\n1",
];
const records = ["", "x", "9\tx\t", `1\t${"9".repeat(30)}\t{}`, "0\t0\t", "1\t1 zzz\t{"];
const uniques = ["", "x", "a b 0 ", "! 0 ", "!room 0 a%20b", "%zz x y", "a%20b 99999999999999999999 %"];
const counts = ["", "x", "1", "nan", "inf", "-5", "99999999999999999999"];
const fields = ["", "x", "0\tR\t\t{", '0\tR\t\t{"everyMs":0}', '0\tR\t5\t{"everyMs":1000}'];

const takeId = "worker000000";
const keys = (): ReturnType<typeof queueKeys> => queueKeys(redis.prefix, "mail");
const head = (): string => keyHead(redis.prefix, "mail");
const taken = (): string => takenKey(head(), takeId);
const replies = (): string => repliesKey(head(), "caller");
const state = (): string => `${redis.prefix}:bull`;

/** Where a job with this id may be. */
const places = [
  "waiting",
  "prioritised",
  "due",
  "later",
  "successor",
  "parent",
  "held",
  "ended",
  "dead",
  "suspended",
  "grouped",
  "nowhere",
] as const;
type Place = (typeof places)[number];

/** A queue in which everything is stored that this round has. */
const clear = async (): Promise<unknown> => redis.client.del("none", ...(await redis.client.keys(`${redis.prefix}:*`)));

const fill = async (id: string, round: number, place: Place): Promise<void> => {
  const of = <T>(some: readonly T[]): T => some[round % some.length]!;
  const { jobs, waiting, prioritised, delayed, leases, dead, failures, suspended, named, unique, limits, meta } =
    keys();
  await clear();
  const client = redis.client.pipeline();
  client.hset(jobs, id, of(blobs), "other", "k1 job\n1");
  client.rpush(waiting, "other").hset(failures, id, of(records)).hset(unique, "key", of(uniques), "more", of(uniques));
  client.hset(limits, "names", "\njob 1 0", "listened", "99999999999999").xadd(keys().events, "1-1", "e", "began");
  client.hset(meta, "layout", "1");
  client.hset(keys().families, id, of(counts), `${id}\t0`, of(ids), `${id}\t2`, id);
  client.hset(keys().families, "other", of(counts), "other\t0", id, "other\t1", of(records), "!room\t0", id);
  client.set(taken(), `${takeId}\n${id}`).zadd(named, 0, `job ${takeId}${id}`);
  client.hset(keys().schedules, id, of(fields)).hset(keys().templates, id, of(blobs)).zadd(keys().upcoming, 5, id);
  client.hset(keys().workers, takeId.slice(0, 7), of(records), id, of(blobs));
  client.hset(keys().records, id, of(records), "!bytes", "5").zadd(keys().kept, 5, id);
  client.hset(keys().groups, "g", of(records), "", of(counts)).zadd(keys().turns, round % 3 === 0 ? "inf" : "5", "g");
  client.zadd(keys().held, 0, `g ${id}`, 0, id, 0, "g", 0, "other ");
  for (const entry of [id, `!5!${id}`, `!5@g!${id}`]) {
    if (place === "waiting") client.rpush(waiting, entry);
    if (place === "prioritised") client.zadd(prioritised, 5, entry);
    if (place === "due") client.zadd(delayed, 5, entry);
    if (place === "later") client.zadd(delayed, "inf", entry);
    if (place === "successor") client.zadd(delayed, "1000000000000005", entry);
    if (place === "parent") client.zadd(delayed, "2000000000000005", entry, "2000000000000005", "other");
    if (place === "held") client.zadd(leases, "9999999999999", takeId + entry);
    if (place === "ended") client.zadd(leases, 5, takeId + entry);
    if (place === "dead") client.zadd(dead, 5, entry);
    if (place === "grouped")
      client.zadd(keys().grouped, 0, entry, 0, `g 10485761000000000000005 ${entry}`, 0, `g 1 ${entry}`);
    if (place === "suspended") client.zadd(suspended, 0, entry, 0, `job 10485761000000000000005 ${entry}`);
  }
  await client.exec();
};

const stepWith = (given: Record<string, unknown>): Promise<unknown> =>
  all.step.run(redis.client, { ...keys(), taken: taken(), replies: [replies()] }, {
    ...{ takeId: "worker000003", count: 5, sure: 5, leaseMs: 60_000, flags: "look time", maintenance: "1" },
    ...{ bounds: "2 10000 1209600000 67108864", done: "", others: [] },
    ...given,
  } as never);
let sequence = 0;
const answered = (words: string): string[] =>
  ["AAAAAAAAA", ...(/\tsettles=(\w+)/.exec(words)?.slice(1) ?? [])].map((producer) => `${head()}answered:${producer}`);
const addWith = (id: string, words: string): Promise<unknown> =>
  all.add.run(
    redis.client,
    {
      ...keys(),
      others: [
        ...(words.includes("\tgroup") ? groupKeys.map((part) => keys()[part]) : []),
        ...onceKeys(keys(), answered(words), words.includes("\tkey")),
      ],
    },
    { producer: "AAAAAAAAA", sequence: ++sequence, isNew: "0", plan: `${id}${words}`, blobs: ["k1 job kkey e5\n1"] },
  );
const page = { adopting: { token: "T", target: "t", number: 1 } };

/** Each script that writes, as its callers call it. */
const calls: Record<string, (id: string) => readonly (() => Promise<unknown>)[]> = {
  "queue.add": (id) => [
    () => addWith("BBBBBBBBB.0001", "\tanswer\tkey=key"),
    () => addWith("BBBBBBBBB.0001", "\tanswer=quick\tkey=key\treplace"),
    () => addWith("BBBBBBBBB.0001", "\tanswer\tkey=key\treplace\tdelay=5000"),
    () => addWith("BBBBBBBBB.0001", "\tanswer=quick\tkey=more\tttl=5000\textend"),
    () => addWith("BBBBBBBBB.0001", "\tanswer\tkey=key\tttl=5\textend"),
    () => addWith("other", "\tifNew\tanswer"),
    () => addWith("BBBBBBBBB.0001", "\tgroup=g\tanswer\tkey=key\treplace"),
    () => addWith("BBBBBBBBB.0001", "\tgroup=g\tanswer\tkey=more\tfront"),
    () => addWith("other", `\tifNew\tanswer\tsettles=AAAAAAAAA:3\tpriority=5\tdue=9999999999999999`),
    // Below, an id without what ends a line or a word of the plan.
    ...(/^[^\t]+$/.test(id)
      ? [
          () => addWith(id, "\tifNew\tanswer"),
          () => addWith(id, "\tifNew\tanswer\tdelay=5000"),
          () => addWith(id, "\tifNew\tanswer=quick\tkey=key"),
        ]
      : []),
  ],
  "queue.addFlow": (id) => [
    () =>
      flows.addFlow.run(
        redis.client,
        { ...keys(), answered: `${head()}answered:AAAAAAAAA` },
        {
          ...{ producer: "AAAAAAAAA", sequence: ++sequence, isNew: "0" },
          plan: `BBBBBBBBB.0001\topen=2\troot\nother\tifNew\nBBBBBBBBB.0002\tdue=9999999999999999\troot`,
          blobs: ["k1 job f\n1", `k1 job f,f0:${encodeURIComponent(id)}\n1`, "k1 job f,i0:%ZZ\n1"],
        },
      ),
  ],
  "queue.park": (id) => [
    () =>
      flows.park.run(redis.client, keys(), {
        ...{ member: takeId + id, children: 2, plan: "BBBBBBBBB.0001\topen=1\troot\nother\tifNew" },
        blobs: [
          `k1 job f,f0:${encodeURIComponent(id)}\n1`,
          `k1 job f,i1:${encodeURIComponent(id)},f0:BBBBBBBBB.0001\n1`,
        ],
      }),
    () =>
      flows.park.run(redis.client, keys(), {
        ...{ member: takeId + id, children: 1, plan: "BBBBBBBBB.0001\tpriority=3" },
        blobs: ["k1 job f,i0:%ZZ\n1"],
      }),
  ],
  "queue.stageFlow": (id) => [
    () => flowSlices.stageFlow.run(redis.client, keys(), { token: "T", number: 0, root: id, slice: "x" }),
  ],
  "queue.startFlow": (id) => [
    async () => {
      const plan = `BBBBBBBBB.0001\topen=2\tbytes=11\nother\tbytes=`;
      const child = `k1 job f,f0:${encodeURIComponent(id)},i0:%ZZ\n1`;
      const slice = `${plan}${String(child.length)}\n\nk1 job f\n1\n${child}`;
      await flowSlices.stageFlow.run(redis.client, keys(), { token: "T", number: 0, root: "", slice });
      await flowSlices.startFlow.run(redis.client, keys(), { token: "T", number: 0, total: 1, root: "" });
    },
    () => flowSlices.startFlow.run(redis.client, keys(), { token: id, number: 0, total: 1, root: id }),
  ],
  "queue.step": (id) => [
    () => stepWith({}),
    () => stepWith({ done: takeId + id }),
    ...["done", "done leads", "retry=0", "retry=5", "dead", "dead leads unbegun", "hold=5", "snooze=5", "expired"].map(
      (verdict) => () =>
        stepWith({ others: [{ member: takeId + id, verdict, record: "1\t0\t{}", answer: "1 c i json\nx" }] }),
    ),
    ...["json\n1", "refused\n{", "", "x"].map(
      (outcome) => () =>
        stepWith({ others: [{ member: takeId + id, verdict: "done leads", record: "", answer: `0 ${outcome}` }] }),
    ),
  ],
  "queue.heartbeat": (id) => [
    () => all.heartbeat.run(redis.client, keys(), { leaseMs: 5, members: takeId + id, record: "=" }),
  ],
  "queue.present": (id) => [
    () => workers.present.run(redis.client, keys(), { worker: id, record: id, sweeps: "1" }),
    () => workers.present.run(redis.client, keys(), { worker: id, record: "", sweeps: "" }),
  ],
  "queue.begin": (id) => [() => all.begin.run(redis.client, keys(), { member: takeId + id })],
  "queue.handBack": (id) => [
    () => all.handBack.run(redis.client, keys(), { members: takeId + id, after: "", limited: "1", begun: id }),
    () =>
      all.handBack.run(redis.client, keys(), { members: takeId + id, after: "other\n!5!x", limited: "", begun: "" }),
  ],
  "queue.recover": () => [() => all.recover.run(redis.client, { ...keys(), taken: taken() }, { takeId })],
  "queue.redrive": (id) =>
    ["redrive", "drop"].flatMap((verb) =>
      ["", id].flatMap((some) =>
        [0, 5_000].map(
          (spreadMs) => () => all.redrive.run(redis.client, keys(), { verb, ids: some, begun: "", spreadMs } as never),
        ),
      ),
    ),
  "queue.outcomes": (id) => [
    () => all.outcomes.run(redis.client, { ...keys(), replies: replies() }, { received: id, wanted: id }),
  ],
  "queue.repair": (id) => [() => looks.repair.run(redis.client, keys(), { verb: "repair", ids: `${id}\nother` })],
  "queue.prioritise": (id) => [
    () => looks.prioritise.run(redis.client, keys(), { id, priority: 7 }),
    () => looks.prioritise.run(redis.client, keys(), { id, priority: 0 }),
  ],
  "queue.remove": (id) => [() => looks.remove.run(redis.client, keys(), { id })],
  "queue.edit": (id) => [
    async () => {
      const { createHash } = await import("node:crypto");
      const digest = createHash("sha1")
        .update((await redis.client.hget(keys().jobs, id)) ?? "")
        .digest("hex");
      await looks.edit.run(redis.client, keys(), { id, digest, blob: "k1 job p5\n2" });
    },
  ],
  "queue.drain": () =>
    (["waiting", "ranked", "suspended", "grouped"] as const).flatMap((from) =>
      [keys().prioritised, keys().delayed, keys().suspended, keys().grouped].map(
        (ranked) => () => looks.drain.run(redis.client, { ...keys(), ranked }, { from, count: 5, group: "" }),
      ),
    ),
  "queue.clean": () =>
    (["waiting", "prioritised", "suspended", "grouped", "delayed", "dead"] as const).map(
      (state) => () =>
        cleaning.clean.run(
          redis.client,
          { ...keys(), listed: keys()[state] },
          { verb: "clean", state, olderThanMs: 1, begun: "", name: "", cursor: "0" },
        ),
    ),
  "queue.cleanKept": () => [
    () =>
      cleaning.cleanKept.run(redis.client, keys(), {
        verb: "clean",
        olderThanMs: 1,
        begun: "",
        name: "job",
        cursor: "0",
      }),
  ],
  "queue.cancel": (id) => [
    () =>
      looks.cancel.run(
        redis.client,
        { ...keys(), replies: [replies()] },
        { id, header: "", cursor: "0", channel: "c", caller: "i", pushes: "p" },
      ),
  ],
  "queue.reschedule": (id) =>
    ["delay=0", "delay=5000", "due=9999999999999999"].map(
      (due) => () => looks.reschedule.run(redis.client, keys(), { id, due }),
    ),
  "queue.fire": (id) =>
    ["5", "inf", "NaN"].map(
      (next) => () =>
        schedules.fire.run(redis.client, keys(), {
          stamp: "k1",
          plan: `${id}\tR\t5\t${next}\t3\t5,1005\tskip\t0\nother\t\t5\tinf\t\t\t\t0`,
        }),
    ),
  "queue.putSchedule": (id) => [
    () =>
      schedules.putSchedule.run(redis.client, keys(), {
        ...{ id, revision: "R", at: "5", removed: "0", schedule: "0\tS\t\t{}", template: "job\n1", next: "5" },
      }),
  ],
  "queue.dropSchedule": (id) => [() => schedules.dropSchedule.run(redis.client, keys(), { id, revision: "R" })],
  "queue.keep": (id) => [
    () =>
      history.keep.run(redis.client, keys(), {
        ...{ maxCount: 1, maxAgeMs: 5_000, maxBytes: 50 },
        ended: [{ member: takeId + id, record: `${takeId} {}` }],
      }),
  ],
  "queue.forget": (id) => [() => history.forget.run(redis.client, keys(), { members: takeId + id })],
  "queue.note": (id) => [
    () =>
      notes.note.run(
        redis.client,
        { ...keys(), notes: `${head()}notes:x` },
        {
          ...{ member: takeId + id, of: "k1", number: 1, keepMs: 5_000, maxLines: 5, maxBytes: 50 },
          ...{ progress: "1", checkpoint: "1", lines: ["a"] },
        },
      ),
  ],
  "queue.adopt.hold": (id) => [
    () =>
      adoption.hold.run(redis.client, { state: state(), listed: keys().waiting, lists: [] }, {
        ...page.adopting,
        kind: "wait",
        start: 0,
        next: "",
        wanted: [id, ""],
      } as never),
  ],
};

/** They have no ids and no records of jobs, only numbers that this package gives them; or only read. */
const others =
  /^queue\.(open|limit|listen|purge|unlink|findKeys|release|closeNotes|letters|overview|find|groupPlaces|scan|list\w*|read\w*|due|adopt\.(look|page|holders|bull\w+|release))$/;

const snapshot = async (): Promise<unknown> => {
  const found: Record<string, unknown> = {};
  for (const key of (await redis.client.keys(`${redis.prefix}:*`)).toSorted())
    found[key] = (await redis.client.dumpBuffer(key))?.toString("base64");
  return found;
};

it(
  "feeds ids, names and records to every script that no door lets in, and none fails",
  { timeout: 240_000 },
  async () => {
    const scripts = Object.values({
      ...all,
      ...adoption,
      ...looks,
      ...cleaning,
      ...schedules,
      ...notes,
      ...history,
      ...workers,
      ...flows,
      ...flowSlices,
    });
    const names = scripts.flatMap((one) => (typeof one === "object" && "source" in one ? [one.name] : []));
    expect(names.filter((one) => !others.test(one) && !(one in calls))).toEqual([]);
    const failures = new Map<string, string>();
    let round = 0;
    for (const id of ids)
      for (const place of places)
        for (const [name, callsOf] of Object.entries(calls)) {
          for (const [index, call] of callsOf(id).entries()) {
            await fill(id, ++round, place);
            await call().catch(async (error: unknown) => {
              const after = await snapshot();
              await fill(id, round, place);
              const isWhole = JSON.stringify(after) === JSON.stringify(await snapshot());
              const what = `${name} ${String(index)} ${isWhole ? "before" : "AFTER"} its first write: ${String(error)}`;
              failures.set(what.replace(/user_script:\d+/, ""), JSON.stringify({ id, place, round }));
            });
          }
        }
    await clear();
    expect(Object.fromEntries(failures)).toEqual({});
  },
);
