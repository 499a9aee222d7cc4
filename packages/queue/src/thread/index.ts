import { createHash } from "node:crypto";
import { createRequire } from "node:module";
import { MessageChannel, type MessagePort, receiveMessageOnPort, Worker as Thread } from "node:worker_threads";
import { KitError, type RedisLike } from "@kit/core";
import { isClusterClient, lowerBoundMs, type OutageReporter } from "@kit/core/toolkit";
import type { QueueKeys } from "../job/keys.js";
import type { LeaseMirror, MirroredLeases } from "./mirror.js";
import type { ThreadOptions } from "./options.js";
import type { Registration, Renewal, Request, Target, ThreadData } from "./protocol.js";
import { renewals } from "./renewals.js";

/** The worker whose leases are renewed. */
export interface MirroredWorker {
  readonly redis: RedisLike;
  /** The options of that client. */
  readonly thread: ThreadOptions;
  readonly keys: QueueKeys;
  readonly leaseMs: number;
  readonly maxBlockedMs: number;
  /** The text of `heartbeat.lua` with its libraries. */
  readonly source: string;
  readonly outage: OutageReporter;
}

/** The leases of one worker, for the thread. */
interface Host {
  readonly leases: MirroredLeases;
  readonly leaseMs: number;
  /** The thread stopped unexpectedly. */
  readonly ended: (cause: unknown) => void;
  /** Leases were taken since the thread last got all members. */
  hasNew: boolean;
}

/** The thread of this process. Undefined while no worker uses it. */
let current: HeartbeatThread | undefined;

/**
 * Lets the thread of this process renew the leases of a worker whenever the main loop is blocked. The first worker starts the thread, and
 * the last worker to leave stops it. The thread does not keep the process alive. If it stops unexpectedly, the worker reports this, and its
 * main loop renews the leases alone.
 *
 * @throws {Error} ioredis cannot be found, or the thread cannot be started.
 */
export const mirrorTo = (leases: MirroredLeases, worker: MirroredWorker): void => {
  const { redis, thread, keys, leaseMs, maxBlockedMs, source, outage } = worker;
  const ended = (cause: unknown): void => {
    leases.mirrorTo(undefined);
    const message = "The heartbeat thread has stopped: a handler that blocks the event loop now loses its jobs";
    outage.report(new KitError("KIT_QUEUE_HEARTBEAT", message, { cause }));
  };
  const registration = {
    target: targetOf(redis, thread),
    keys: [keys.leases, keys.wake, keys.meta, keys.revoked, keys.workers],
    leaseMs,
    maxBlockedMs,
  };
  current ??= new HeartbeatThread(source);
  leases.mirrorTo(current.add(registration, { leases, leaseMs, ended, hasNew: false }));
};

interface Client {
  readonly condition?: { readonly select: number } | null;
  nodes(role: "master"): readonly { readonly options: { readonly host?: string; readonly port?: number } }[];
}

const targetOf = (redis: RedisLike, options: ThreadOptions): Target => {
  const client = redis as RedisLike & Client;
  if (!isClusterClient(redis)) return { options: { ...options, db: client.condition?.select ?? options["db"] } };
  return { nodes: client.nodes("master").map(({ options: { host, port } }) => ({ host, port })), options };
};

/** The clock of all threads, in milliseconds, and how far our own clock is ahead of it. */
const sharedMs = (): number => Number(process.hrtime.bigint()) / 1e6;
const aheadMs = performance.now() - sharedMs();

class HeartbeatThread {
  readonly #thread: Thread;
  readonly #port: MessagePort;
  readonly #turnedAt = new BigInt64Array(new SharedArrayBuffer(8));
  readonly #hosts = new Map<number, Host>();
  #count = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(source: string) {
    const { port1, port2 } = new MessageChannel();
    this.#port = port1;
    // Without a listener, the port does not keep the process alive. Messages are fetched instead.
    port1.unref();
    this.#turned();
    const here = typeof __filename === "string" ? __filename : import.meta.url;
    const workerData: ThreadData = {
      port: port2,
      turnedAt: this.#turnedAt,
      ioredis: createRequire(here).resolve("ioredis"),
      source,
      sha: createHash("sha1").update(source).digest("hex"),
    };
    // Some tools wrap named functions in `__name`, which the thread does not have.
    const text = `const __name = (made) => made;\n(${String(renewals)})(require);`;
    this.#thread = new Thread(text, {
      eval: true,
      execArgv: [],
      workerData,
      transferList: [port2],
      name: "kit heartbeat",
    });
    this.#thread.unref();
    let failure: unknown;
    this.#thread.on("error", (error) => (failure = error));
    this.#thread.on("exit", () => this.#onExit(failure));
  }

  add(registration: Registration, host: Host): LeaseMirror {
    const number = ++this.#count;
    this.#hosts.set(number, host);
    this.#send({ worker: number, register: registration });
    this.#arm();
    return {
      held: (members) => {
        host.hasNew = true;
        this.#send({ worker: number, members, isAll: false });
      },
      fetch: () => this.#fetch(),
      close: () => {
        if (!this.#hosts.delete(number)) return;
        this.#send({ worker: number, leave: true });
        this.#arm();
        // The thread ends itself, because terminating a thread that loads ioredis takes seconds.
        if (this.#hosts.size === 0 && current === this) current = undefined;
      },
    };
  }

  #send(request: Request): void {
    this.#port.postMessage(request);
  }

  #turned(): void {
    Atomics.store(this.#turnedAt, 0, process.hrtime.bigint() / 1_000n);
  }

  /** Twenty times per shortest lease, the main loop reports that it is running, and which leases have not ended. */
  #arm(): void {
    clearInterval(this.#timer);
    if (this.#hosts.size === 0) return;
    const shortest = Math.min(...[...this.#hosts.values()].map(({ leaseMs }) => leaseMs));
    this.#timer = setInterval(() => {
      this.#fetch();
      this.#turned();
      for (const [worker, host] of this.#hosts) {
        if (!host.hasNew) continue;
        host.hasNew = false;
        this.#send({ worker, members: host.leases.members, isAll: true });
      }
    }, shortest * 0.05);
    this.#timer.unref();
  }

  #fetch(): void {
    for (let next = receiveMessageOnPort(this.#port); next; next = receiveMessageOnPort(this.#port)) {
      const { worker, sentAt, renewed, cancelled } = next.message as Renewal;
      const host = this.#hosts.get(worker);
      if (!host) continue;
      const until = sentAt + aheadMs + lowerBoundMs(host.leaseMs);
      host.leases.settle(new Set(renewed.split("\n")), new Set(cancelled.split("\n")), until);
      // Some of them may have been given up.
      host.hasNew = true;
    }
  }

  /** The loop continues with its own heartbeats. The next worker starts another thread. */
  #onExit(failure: unknown): void {
    clearInterval(this.#timer);
    if (current === this) current = undefined;
    for (const { ended } of this.#hosts.values()) ended(failure);
    this.#hosts.clear();
    this.#port.close();
  }
}
