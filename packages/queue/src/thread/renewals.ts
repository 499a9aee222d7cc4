import type { Registration, Request, ThreadData } from "./protocol.js";

/**
 * Runs in the thread: renews the leases of each worker while the main loop is blocked. Its text is passed to the thread, so it can use
 * nothing from outside except `load`, the thread's `require`.
 *
 * While the main loop turns, it only checks the time and its messages.
 */
export const renewals = (load: (id: string) => unknown): void => {
  interface Client {
    call(command: string, ...args: (string | number)[]): Promise<unknown>;
    on(event: "error", listener: () => void): void;
    disconnect(): void;
  }
  type Make = new (...args: unknown[]) => Client;
  interface Served extends Registration {
    readonly client: Shared;
    members: Set<string>;
    renewedAt: number;
    isRenewing: boolean;
  }
  interface Shared {
    readonly key: string;
    readonly client: Client;
    users: number;
  }

  const { workerData, receiveMessageOnPort } = load("node:worker_threads") as typeof import("node:worker_threads");
  const { port, turnedAt, ioredis, source, sha } = workerData as ThreadData;
  const { Redis, Cluster } = load(ioredis) as { readonly Redis: Make; readonly Cluster: Make };
  const workers = new Map<number, Served>();
  const clients = new Map<string, Shared>();
  /** The time in milliseconds of the clock that all threads share. */
  const nowMs = (): number => Number(process.hrtime.bigint()) / 1e6;
  /** The maximum number of leases in one call, as `heartbeat.lua` accepts them. */
  const mostMembers = 500;

  const clientOf = ({ target: { nodes, options } }: Registration): Shared => {
    const key = JSON.stringify([nodes !== undefined, options]);
    const known = clients.get(key);
    if (known) return known;
    const own = {
      commandTimeout: 2_000,
      connectTimeout: 2_000,
      maxRetriesPerRequest: 1,
      enableAutoPipelining: false,
      enableReadyCheck: false,
      lazyConnect: false,
      retryStrategy: (attempt: number) => Math.min(50 * attempt, 1_000),
      // The server became a replica: a new connection finds the master.
      reconnectOnError: (error: Error) => error.message.startsWith("READONLY"),
    };
    const { redisOptions } = options as { readonly redisOptions?: object };
    const client = nodes
      ? new Cluster(nodes, {
          ...options,
          dnsLookup: (name: string, found: (error: null, address: string) => void) => found(null, name),
          clusterRetryStrategy: own.retryStrategy,
          lazyConnect: false,
          redisOptions: { ...redisOptions, ...own },
        })
      : new Redis({ ...options, ...own });
    client.on("error", () => undefined);
    const shared = { key, client, users: 0 };
    clients.set(key, shared);
    return shared;
  };

  const leave = (number: number): void => {
    const worker = workers.get(number);
    if (!worker) return;
    workers.delete(number);
    // After that, the main loop gives the thread no more workers.
    if (workers.size === 0) process.exit();
    if (--worker.client.users > 0) return;
    clients.delete(worker.client.key);
    worker.client.client.disconnect();
  };

  const receive = (request: Request): void => {
    if ("register" in request) {
      const client = clientOf(request.register);
      client.users++;
      const fresh = { client, members: new Set<string>(), renewedAt: -Infinity, isRenewing: false };
      workers.set(request.worker, { ...request.register, ...fresh });
    } else if ("leave" in request) leave(request.worker);
    else {
      const worker = workers.get(request.worker);
      if (!worker) return;
      if (request.isAll) worker.members.clear();
      for (const member of request.members.split("\n")) if (member !== "") worker.members.add(member);
    }
  };

  const run = async ({ client: { client }, keys, leaseMs }: Served, members: string): Promise<string> => {
    const operands = [keys.length, ...keys, leaseMs, members, "="];
    const reply = await client.call("EVALSHA", sha, ...operands).catch((error: unknown) => {
      if (!String(error).includes("NOSCRIPT")) throw error;
      return client.call("EVAL", source, ...operands);
    });
    return String((reply as readonly unknown[])[1]);
  };

  const renew = async (number: number, worker: Served): Promise<void> => {
    worker.isRenewing = true;
    const sentAt = nowMs();
    try {
      const members = [...worker.members];
      const gone = new Set<string>();
      const cancelled: string[] = [];
      for (let start = 0; start < members.length; start += mostMembers) {
        const lost = await run(worker, members.slice(start, start + mostMembers).join("\n"));
        for (const line of lost.split("\n")) {
          // A tab and `cancelled` may follow.
          const [member = "", reason] = line.split("\t");
          gone.add(member);
          if (reason) cancelled.push(member);
        }
      }
      worker.renewedAt = sentAt;
      const renewed = members.filter((one) => !gone.has(one)).join("\n");
      port.postMessage({ worker: number, sentAt, renewed, cancelled: cancelled.join("\n") });
    } catch {
      // The next look tries again. If none succeeds, the leases expire, as if the process had died.
    } finally {
      worker.isRenewing = false;
    }
  };

  const look = (): void => {
    for (let next = receiveMessageOnPort(port); next; next = receiveMessageOnPort(port))
      receive(next.message as Request);
    const now = nowMs();
    const turned = Number(Atomics.load(turnedAt, 0)) / 1_000;
    const blockedMs = now - turned;
    let shortest = 1_000;
    for (const [number, worker] of workers) {
      const { leaseMs, maxBlockedMs } = worker;
      shortest = Math.min(shortest, leaseMs);
      const isDue = blockedMs > leaseMs * 0.15 && now - worker.renewedAt > leaseMs * 0.3;
      if (!isDue || blockedMs > maxBlockedMs) continue;
      if (worker.members.size > 0 && !worker.isRenewing) void renew(number, worker);
    }
    setTimeout(look, shortest * 0.05);
  };
  look();
};
