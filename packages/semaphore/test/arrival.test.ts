import { eventually, useRedis } from "@kit/testing";
import { describeLeaseArrival } from "@tooling/vitest/conformance";
import { timed } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { expect, it } from "vitest";
import { enqueue, fixtureOf, name } from "./harness.js";
import { leasingOf } from "./leasing.js";

const redis = useRedis(vitest);
const fixture = fixtureOf(redis);

describeLeaseArrival(leasingOf(redis));

it("keeps the order of those who live when a holder and waiters are killed", async () => {
  // With one permit a process cannot receive two grants out of their order, over two connections.
  const semaphore = fixture.make({ permits: 1 });
  const peers = await Promise.all(Array.from({ length: 4 }, () => fixture.spawn({ permits: 1 })));
  const [holder, ...doomed] = peers;
  await holder!.acquire({ leaseMs: 800 });
  const served: number[] = [];
  const turns: Promise<void>[] = [];
  let most = 0;
  let waiters = 0;
  for (let turn = 0; turn < 6; turn++) {
    // Before each second one that lives stands one that dies.
    if (turn % 2 === 0) {
      doomed[turn / 2]!.acquire({ leaseMs: 800 }).catch(() => undefined);
      await fixture.untilWaiting(name, ++waiters);
    }
    const waiter = await enqueue(semaphore);
    await fixture.untilWaiting(name, ++waiters);
    turns.push(
      waiter.promise.then(async (permit) => {
        served.push(turn);
        most = Math.max(most, await fixture.used());
        await permit.release();
      }),
    );
  }
  const { awakeMs } = await timed(Promise.all([...peers.map((peer) => peer.kill()), ...turns]));
  // The holder's lease. Of those who died in the queue each would cost two seconds more.
  expect(awakeMs).toBeLessThan(5_000);
  expect(served).toEqual([0, 1, 2, 3, 4, 5]);
  expect(most).toBe(1);
  await eventually(async () => expect(await fixture.used()).toBe(0));
});

it("never lets more in than there are permits while processes that hold and wait are killed", async () => {
  const semaphore = fixture.make({ permits: 3, leaseMs: 600 });
  let most = 0;
  let isOver = false;
  const watching = (async () => {
    while (!isOver) most = Math.max(most, await fixture.used());
  })();
  for (let round = 0; round < 4; round++) {
    const peers = await Promise.all([1, 2].map(() => fixture.spawn({ permits: 3, leaseMs: 600 })));
    for (const peer of peers) for (let asked = 0; asked < 3; asked++) peer.acquire().catch(() => undefined);
    const own = Promise.all([1, 2, 3].map(() => semaphore.using(() => fixture.db.ping())));
    await eventually(async () => expect((await semaphore.inspect()).waiters).toBeGreaterThan(0));
    await Promise.all(peers.map((peer) => peer.kill()));
    await own;
  }
  isOver = true;
  await watching;
  expect(most).toBe(3);
  await eventually(async () => expect(await fixture.used()).toBe(0));
});
