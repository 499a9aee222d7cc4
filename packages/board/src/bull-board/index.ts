import type { BaseAdapter } from "@bull-board/api/baseAdapter";
import type { RedisLike } from "@kit/core";
import type { QueueAddress } from "@kit/queue/manage";
import { KitAdapter } from "./adapter.js";
import type { BullBoardOptions } from "./options.js";

export type { BullBoardOptions };

/** A queue on a bull-board. Create it with {@link createBullBoardAdapter}. */
export interface BullBoardAdapter extends BaseAdapter {
  /** Removes the adapter's listeners from your client. The client stays open. Never throws. */
  close(): Promise<void>;
}

/**
 * Puts a queue on a bull-board, next to queues of BullMQ. Pass the adapter to `createBullBoard()` of `@bull-board/api`.
 *
 * The board hides what kit cannot do, or replies with the status 400 and the reason. While Redis is unreachable, requests of the board
 * fail within the deadline of a command, 2 s.
 *
 * Without `readOnlyMode`, every visitor can change the queue. bull-board has no login, so let only people who are logged in reach it.
 *
 * @throws {TypeError | RangeError} `redis`, `address` or `jobs` is invalid.
 * @throws {KitError} `KIT_NAME`: the name cannot be a key.
 *
 * @example
 * const mail = createBullBoardAdapter(redis, { queue: "mail" });
 * createBullBoard({ queues: [mail, new BullMQAdapter(old)], serverAdapter });
 */
export const createBullBoardAdapter = (
  redis: RedisLike,
  address: QueueAddress,
  options: BullBoardOptions = {},
): BullBoardAdapter => new KitAdapter(redis, address, options);
