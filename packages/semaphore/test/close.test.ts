import { useRedis } from "@kit/testing";
import { describeLeaseClosing } from "@tooling/vitest/conformance";
import { aborted, promptMs, timed } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { expect, it } from "vitest";
import { enqueue, fixtureOf, take } from "./harness.js";
import { leasingOf } from "./leasing.js";

const redis = useRedis(vitest);
const fixture = fixtureOf(redis);

describeLeaseClosing(leasingOf(redis));

it("takes all permits of several weights from their holders at timeoutMs", async () => {
  const semaphore = fixture.make({ permits: 5 });
  const permits = await take(semaphore, 2, { weight: 2 });
  const waiter = await enqueue(fixture.on(redis.connect(), { permits: 5 }), { weight: 5 });
  await semaphore.close({ timeoutMs: 100 });
  for (const permit of permits) {
    expect(await aborted(permit.signal)).toMatchObject({ reason: "closed" });
    expect(await permit.release()).toBe("not-held");
  }
  expect((await timed(waiter.promise)).awakeMs).toBeLessThan(promptMs);
});
