// One buyer in a separate process, which reports when it is about to write. The parent can stop it there by SIGSTOP and
// let it continue later. A debugger, swapping or a long garbage collection have the same effect.
import { connect } from "@kit/core";
import { createLock } from "@kit/lock";
import { purchaseItemWithOwnerlessLock } from "@tooling/classic";
import type { Redis } from "ioredis";
import { lockName } from "../common/keys.js";
import { Market } from "../market/market.js";
import type { Place } from "../common/place.js";
import { patienceMs } from "../common/child.js";

export interface HolderTask extends Place {
  readonly way: "setnx" | "lock";
  readonly market: string;
  readonly lifeMs: number;
  readonly item: string;
  readonly seller: string;
  readonly buyer: string;
  readonly name: string;
  readonly price: number;
  readonly leaseMs: number;
  /** The prefix of the keys in the textbook's layout. */
  readonly classicPrefix: string;
}

export type HolderSays =
  | { readonly what: "about to write"; readonly fencingToken: string | null }
  | { readonly what: "over"; readonly outcome: string; readonly newestToken: string | null };

const say = (message: HolderSays): void => void process.send?.(message);

/** Reports to the parent and waits for its reply. This process cannot notice a SIGSTOP in between. */
const aboutToWrite = async (fencingToken: string | null): Promise<void> => {
  const goOn = new Promise((resolve) => process.once("message", resolve));
  say({ what: "about to write", fencingToken });
  await goOn;
};

const buyAsTheTextbook = async (task: HolderTask): Promise<string> => {
  const redis = await connect({ url: task.url, deadlineMs: patienceMs });
  const { buyer, item, seller, price, classicPrefix: prefix, leaseMs } = task;
  // The textbook's code, unchanged. Its first write waits for the parent.
  const write = redis.hincrby.bind(redis) as Redis["hincrby"];
  let isFirst = true;
  const plain = Object.create(redis) as Redis;
  plain.hincrby = (async (...args: Parameters<Redis["hincrby"]>) => {
    if (isFirst) await aboutToWrite(null);
    isFirst = false;
    return await write(...args);
  }) as unknown as Redis["hincrby"];
  const lockTimeoutSeconds = Math.ceil(leaseMs / 1_000);
  const { outcome } = await purchaseItemWithOwnerlessLock(plain, buyer, item, seller, price, {
    prefix,
    lockTimeoutSeconds,
  });
  return outcome === "bought" ? "sold" : outcome;
};

const buyUnderLock = async (task: HolderTask): Promise<{ outcome: string; newestToken: string | null }> => {
  const redis = await connect({ url: task.url, deadlineMs: patienceMs });
  const lock = createLock(redis, { prefix: task.prefix, leaseMs: task.leaseMs, holder: task.name });
  lock.on("error", () => undefined);
  const market = new Market(redis, lock, task.market, task.lifeMs, task.prefix);
  const { item, buyer, price } = task;
  const lease = await lock.acquire(lockName(task.market, item));
  const { fencingToken } = lease;
  await aboutToWrite(fencingToken);
  // The lease is not checked, on purpose: then only the resource itself can refuse the write.
  const outcome = await market.buyUnder({ fencingToken }, { item, buyer, price, revision: 1, request: "late" });
  return { outcome: outcome.kind, newestToken: outcome.kind === "stale-fence" ? outcome.fence : null };
};

process.on("SIGINT", () => undefined);
process.once("disconnect", () => process.exit(1));
process.once("message", (task: HolderTask) => {
  const work =
    task.way === "lock"
      ? buyUnderLock(task)
      : buyAsTheTextbook(task).then((outcome) => ({ outcome, newestToken: null }));
  work.then(
    (result) => process.send?.({ what: "over", ...result } satisfies HolderSays, () => process.exit(0)),
    (error: unknown) => {
      const outcome = error instanceof Error ? error.message : String(error);
      process.send?.({ what: "over", outcome, newestToken: null } satisfies HolderSays, () => process.exit(0));
    },
  );
});
