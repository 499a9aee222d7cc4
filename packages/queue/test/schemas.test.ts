import type { StandardSchema } from "@kit/core/config";
import { eventually, useRedis } from "@kit/testing";
import { rejection } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { fixtureOf, permanentKeys, Runs } from "./harness.js";

const redis = useRedis(vitest, { permanentKeys });
const { make, work, counts, untilEmpty } = fixtureOf(redis);

type Validate = StandardSchema["~standard"]["validate"];
const schemaOf = (validate: Validate): StandardSchema => ({ "~standard": { version: 1, vendor: "test", validate } });

/** Wants an address, and fills in a subject. */
const mail: Validate = (value) => {
  const { to, ...rest } = value as { to?: unknown };
  if (typeof to !== "string" || !to.includes("@"))
    return { issues: [{ message: `${String(to)} is no address`, path: ["mail", { key: "to" }] }] };
  return { value: { subject: "none", ...rest, to } };
};
const kinds: readonly (readonly [string, Validate])[] = [
  ["at once", mail],
  ["later", async (value) => await mail(value)],
  // No native Promise, as of libraries with promises of their own.
  // oxlint-disable-next-line unicorn/no-thenable
  ["by a foreign thenable", (value) => ({ then: (done: (verdict: unknown) => unknown) => done(mail(value)) }) as never],
  [
    "by a thenable that is a function",
    (value) =>
      // oxlint-disable-next-line unicorn/no-thenable
      Object.assign(() => undefined, { then: (done: (verdict: unknown) => unknown) => done(mail(value)) }) as never,
  ],
];

describe.each(kinds)("a schema that answers %s", (_when, validate) => {
  const schemas = { job: schemaOf(validate) };

  it("rejects data that does not fit, shows the path but not the data, and adds none of several jobs", async () => {
    const queue = make({ schemas });
    const wrong = await rejection(queue.add("job", { to: "secret" }));
    expect(wrong).toMatchObject({ code: "KIT_QUEUE_PAYLOAD", job: "job" });
    expect(String(wrong)).toMatch(/does not match its schema at mail\.to$/);
    const jobs = [{ to: "ann@example.org" }, {}].map((data) => ({ name: "job", data }));
    expect(await rejection(queue.addAll(jobs))).toMatchObject({ code: "KIT_QUEUE_PAYLOAD" });
    expect((await counts()).jobs).toBe(0);
    await queue.add("other", "unchecked");
    expect((await counts()).jobs).toBe(1);
  });

  it("gives handlers its output, and stores the data as it was added", async () => {
    const [queue, runs] = [make({ schemas }), new Runs()];
    await queue.add("job", { to: "ann@example.org" });
    const { jobs } = fixtureOf(redis).keysOf();
    expect(String(await redis.client.hvals(jobs))).toMatch(/\n\{"to":"ann@example.org"\}$/);
    work(queue, runs.handler);
    await runs.until(1);
    expect(runs.data).toEqual([{ to: "ann@example.org", subject: "none" }]);
  });

  it("passes data that does not fit on, without its handler; after many passes each is a failed attempt", async () => {
    const [queue, runs] = [make({ schemas }), new Runs()];
    const id = await make({ maxAttempts: 1 }).add("job", { to: "secret", kept: 1 });
    await queue.add("job", { to: "bob@example.org" });
    const worker = work(queue, runs.handler);
    await runs.until(1);
    await eventually(async () => expect((await counts()).delayed).toBe(1));
    await worker.close();
    const { failures } = fixtureOf(redis).keysOf();
    expect(await redis.client.hget(failures, id)).toMatch(/^0\t0\t.*\t0\t\d fresh$/);
    await redis.client.hset(failures, id, "0\t0\t\t0\t100 fresh");
    work(queue, runs.handler);
    await untilEmpty();
    expect(runs.data).toEqual([{ to: "bob@example.org", subject: "none" }]);
    const [letter] = await queue.deadLetters();
    expect(letter).toMatchObject({ id, data: { to: "secret", kept: 1 }, attempts: 1, crashes: 0 });
    expect(letter!.error).toMatchObject({ code: "KIT_JOB_REFUSED" });
    expect(letter!.error!.message).toBe(
      'A "job" job cannot run here: the stored data does not match its schema at mail.to',
    );
  });
});

describe("schemas", () => {
  it("checks the data of their names for the handler *, and no other data", async () => {
    const [queue, runs] = [make({ schemas: { job: schemaOf(mail), "*": schemaOf(mail) } }), new Runs()];
    const unchecked = make();
    await unchecked.add("other", "unchecked");
    await unchecked.add("job", "wrong");
    await unchecked.add("*", "wrong");
    await queue.add("job", { to: "ann@example.org" });
    queue.work({ "*": runs.handler });
    await runs.until(2);
    expect(runs.data).toEqual(["unchecked", { to: "ann@example.org", subject: "none" }]);
    await eventually(async () => expect((await counts()).delayed).toBe(2));
  });

  it("see data as it is stored: a Date as text, undefined and bytes as they are", async () => {
    const seen: unknown[] = [];
    const all = schemaOf((value) => {
      seen.push(value);
      return { value };
    });
    const [queue, runs] = [make({ schemas: { job: all } }), new Runs()];
    const expected = [{ at: new Date(0).toJSON() }, undefined, Buffer.from([1, 2])];
    for (const data of [{ at: new Date(0) }, undefined, Uint8Array.of(1, 2)]) await queue.add("job", data);
    work(queue, runs.handler);
    await runs.until(3);
    expect(seen).toEqual([...expected, ...expected]);
  });

  it("that fail refuse an add, and fail an attempt of a worker", async () => {
    const broken = schemaOf(() => {
      throw new Error("no database");
    });
    const queue = make({ schemas: { job: broken }, maxAttempts: 2, backoff: { firstMs: 1 } });
    expect(await rejection(queue.add("job", 1))).toMatchObject({ code: "KIT_QUEUE_PAYLOAD" });
    await make({ maxAttempts: 2, backoff: { firstMs: 1 } }).add("job", 1);
    const runs = new Runs();
    work(queue, runs.handler);
    await eventually(async () =>
      expect(await queue.deadLetters()).toMatchObject([{ attempts: 2, error: { message: "no database" } }]),
    );
    expect(runs.jobs).toEqual([]);
  });

  it("are checked when the queue is created", () => {
    for (const schemas of [7, null, { job: {} }, { job: () => undefined }])
      expect(() => make({ schemas: schemas as never })).toThrow(/^Expected /);
  });
});
