import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { Redis } from "ioredis";
import { classicKeys } from "./keys.js";

const POLL_MS = 1;
/** Milliseconds to wait for the replica's disk. */
const DISK_MS = 1_000;
/** Keys that earlier waits left behind are removed after a day. */
const KEPT_SECONDS = 86_400;

/**
 * "Redis in Action", chapter 4: writes a token on the master, polls the replica until its link is up and until it
 * has the token, then polls the replica's INFO until `aof_pending_bio_fsync` is 0, at most one second.
 *
 * Known faults:
 *
 * - waits without limit for the link and for its token
 * - returns after a second in any case, so that the caller cannot tell whether the disk has the write
 * - the count of pending syncs is also 0 before the write has reached the buffer to be synced
 * - without an append-only file INFO does not have the field
 */
export async function waitForSync(master: Redis, replica: Redis, prefix = ""): Promise<void> {
  const { syncWait } = classicKeys(prefix);
  const token = randomUUID();
  await master.zadd(syncWait, Date.now() / 1_000, token);
  while (infoField(await replica.info(), "master_link_status") !== "up") await sleep(POLL_MS);
  while ((await replica.zscore(syncWait, token)) === null) await sleep(POLL_MS);
  const end = Date.now() + DISK_MS;
  while (Date.now() < end) {
    if (infoField(await replica.info(), "aof_pending_bio_fsync") === "0") break;
    await sleep(POLL_MS);
  }
  await master.zrem(syncWait, token);
  await master.zremrangebyscore(syncWait, 0, Date.now() / 1_000 - KEPT_SECONDS);
}

const infoField = (info: string, name: string): string | undefined =>
  new RegExp(`^${name}:(.*?)\\r?$`, "m").exec(info)?.[1];
