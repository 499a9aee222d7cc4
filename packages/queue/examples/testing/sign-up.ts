import * as vitest from "vitest";
import { createQueue } from "@kit/queue";
import { addedJobs, drain, expectAdded } from "@kit/queue/testing";
import { useRedis } from "@kit/testing";

const { expect, test } = vitest;
// A queue's keys have no expiry. useRedis deletes them after each test.
const redis = useRedis(vitest, { permanentKeys: ["queue:*"] });

type Jobs = { email: (data: { to: string }) => string };

test("a sign-up sends a mail", async () => {
  const address = { queue: "mail", prefix: redis.prefix };
  await using queue = createQueue<Jobs>(redis.client, address.queue, { prefix: address.prefix });

  await queue.add("email", { to: "ann@example.org" }); // what your code does

  await expectAdded(redis.client, address, "email", { to: "ann@example.org" });
  const { completed, failed } = await drain(queue, { email: ({ data }) => `sent to ${data.to}` });
  expect([completed.length, failed.length]).toEqual([1, 0]);
  expect(await addedJobs(redis.client, address)).toEqual([]);
});
