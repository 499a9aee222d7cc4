import * as vitest from "vitest";
import { createLock } from "@kit/lock";
import { createQueue } from "@kit/queue";
import { createSchedules } from "@kit/queue/schedules";
import { drain } from "@kit/queue/testing";
import { useRedis } from "@kit/testing";

const { expect, test } = vitest;
const redis = useRedis(vitest, { permanentKeys: ["queue:*"] });

test("a mail that fails is sent again", async () => {
  const options = { prefix: redis.prefix, maxAttempts: 3, backoff: { firstMs: 0 } };
  await using queue = createQueue(redis.client, "mail", options);
  await queue.add("email", { to: "ann@example.org" });

  const errors = [new Error("busy"), new Error("still busy")];
  const email = () => {
    const error = errors.shift();
    if (error) throw error;
  };
  const { completed, failed } = await drain(queue, { email });
  expect([completed, failed.length]).toEqual([["email"], 2]);
});

test("the report runs at 02:30 in Berlin", async () => {
  await using queue = createQueue(redis.client, "reports", { prefix: redis.prefix });
  await using schedules = createSchedules(redis.client, "reports", { prefix: redis.prefix });
  const schedule = { cron: "30 2 * * *", timezone: "Europe/Berlin", name: "report", data: "sales" };
  await schedules.upsert("nightly", schedule);

  const [next] = await schedules.next("nightly", 1);
  expect(new Date(next ?? 0).toLocaleTimeString("en-GB", { timeZone: "Europe/Berlin" })).toBe("02:30:00");

  await schedules.runNow("nightly"); // doesn't wait for the night
  expect((await drain(queue, { report: () => undefined })).completed).toEqual(["report"]);
});

test("only one server writes the report", async () => {
  await using one = createLock(redis.client, { prefix: redis.prefix });
  await using other = createLock(redis.connect(), { prefix: redis.prefix });
  await using lease = await one.acquire("report");
  expect([lease.isHeld, await other.tryAcquire("report")]).toEqual([true, null]);
});
