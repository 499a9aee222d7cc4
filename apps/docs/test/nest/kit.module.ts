import { createBoard } from "@kit/board";
import { type Connection, connect } from "@kit/core";
import { createLock, type Lock } from "@kit/lock";
import { descriptor as locks } from "@kit/lock/descriptor";
import { createQueue, type Queue } from "@kit/queue";
import { descriptor as queues } from "@kit/queue/descriptor";
import { Global, Inject, Module } from "@nestjs/common";
import type { OnApplicationShutdown } from "@nestjs/common";

/** The jobs of the queue: their names, data and results. */
export interface Jobs {
  order: (data: { readonly item: string }) => void;
}

export const REDIS = Symbol("REDIS");
export const LOCK = Symbol("LOCK");
export const QUEUE = Symbol("QUEUE");
export const BOARD = Symbol("BOARD");

const redis = {
  provide: REDIS,
  // Redis may fail over while the application starts.
  useFactory: () => connect({ url: process.env["REDIS_URL"], deadlineMs: 20_000 }),
};
const lock = { provide: LOCK, inject: [REDIS], useFactory: (client: Connection) => createLock(client) };
const queue = {
  provide: QUEUE,
  inject: [REDIS],
  useFactory: (client: Connection) => createQueue<Jobs>(client, "shop", { maxAttempts: 5 }),
};
const board = {
  provide: BOARD,
  inject: [REDIS],
  useFactory: (client: Connection) => createBoard(client, { packages: [queues, locks] }),
};
const all = [redis, lock, queue, board];

/** Import it in your root module. Then each provider and controller can inject the four. */
@Global()
@Module({ providers: all, exports: all })
export class KitModule implements OnApplicationShutdown {
  @Inject(REDIS) readonly redis!: Connection;
  @Inject(LOCK) readonly lock!: Lock;
  @Inject(QUEUE) readonly queue!: Queue<Jobs>;

  /** Nest calls this when the HTTP server has closed. The handlers come first, since they may use the lock. */
  async onApplicationShutdown(): Promise<void> {
    await this.queue.close({ timeoutMs: 15_000 });
    await this.lock.close();
    await this.redis.close();
  }
}
