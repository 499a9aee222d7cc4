import { spawn } from "node:child_process";
import { type AddressInfo, createServer } from "node:net";
import { inspect } from "node:util";
import { eventually, FaultProxy, type RedisMode, type TestRedis } from "@kit/testing";
import { connect, type Connection, type ConnectOptions } from "../src/connect/connect.js";
import { KitError } from "../src/kernel/base/errors.js";
import type { Inbox } from "../src/kernel/context/inbox.js";

/** A client of `connect()` that is closed after the test. */
export const own = async (redis: TestRedis<RedisMode>, options: ConnectOptions = {}): Promise<Connection> => {
  // A patient deadline: how quickly a busy machine connects is not what these tests are about.
  const client = await connect({ url: redis.url, deadlineMs: 10_000, ...options });
  redis.defer(() => client.close());
  return client;
};

/** A port of loopback where nobody listens. */
export const deadPort = async (): Promise<number> => {
  const server = createServer().listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
};

/** A proxy in front of the (first) server, gone after the test. */
export const proxied = async (redis: TestRedis<RedisMode>): Promise<FaultProxy> => {
  const proxy = await FaultProxy.start({ port: redis.server.nodes[0]!.port });
  redis.defer(() => proxy.close());
  return proxy;
};

/** A proxy for each node of a Cluster, in their order, and the `natMap` by which a client uses them. */
export const proxiedCluster = async (
  redis: TestRedis<"cluster">,
): Promise<{ proxies: FaultProxy[]; natMap: Record<string, { host: string; port: number }> }> => {
  const proxies = await Promise.all(redis.server.nodes.map(({ port }) => FaultProxy.start({ port })));
  redis.defer(() => Promise.all(proxies.map((proxy) => proxy.close())));
  const natMap = Object.fromEntries(
    redis.server.nodes.map(({ host, port }, index) => [
      `${host}:${String(port)}`,
      { host, port: proxies[index]!.port },
    ]),
  );
  return { proxies, natMap };
};

/** The reason that a promise rejects with; a resolution fails the test. */
export const rejection = async (promise: Promise<unknown>): Promise<KitError & Record<string, unknown>> => {
  const value = await promise.then(
    (result) => ({ result }),
    (error: unknown) => ({ error }),
  );
  if ("result" in value) throw new Error(`resolved with ${inspect(value.result)}`);
  return value.error as KitError & Record<string, unknown>;
};

/** How long `work` took, in milliseconds, whatever it came to. */
export const timed = async (work: Promise<unknown>): Promise<number> => {
  const startedAt = performance.now();
  await work.catch(() => undefined);
  return performance.now() - startedAt;
};

/** The connections whose name begins with `name`, over all nodes: `port#id`. */
export const connectionsNamed = async (redis: TestRedis<RedisMode>, name: string): Promise<string[]> => {
  const lists = await Promise.all(
    redis.server.nodes.map(async (node) => {
      const lines = String(await node.call("CLIENT", "LIST")).split("\n");
      return lines
        .filter((line) => line.includes(` name=${name}`))
        .map((line) => `${String(node.port)}#${/id=(\d+)/.exec(line)?.[1] ?? ""}`);
    }),
  );
  return lists.flat();
};

/** How often the servers ran `command` so far. */
export const callsOf = async (redis: TestRedis<RedisMode>, command: string): Promise<number> => {
  const counts = await Promise.all(
    redis.server.nodes.map(async (node) => {
      const stats = String(await node.call("INFO", "commandstats"));
      return Number(new RegExp(`cmdstat_${command}:calls=(\\d+)`).exec(stats)?.[1] ?? 0);
    }),
  );
  return counts.reduce((sum, count) => sum + count, 0);
};

/** A program's output and how it ended; its code is null if it had to be killed. */
export interface Finished {
  readonly stdout: string;
  readonly stderr: string;
  readonly code: number | null;
}

/** Runs an ES module given as text, in a process of its own, from this package's folder. */
export const runProgram = (source: string, env: Record<string, string> = {}): Promise<Finished> =>
  new Promise((resolve, reject) => {
    const child = spawn(process.execPath, ["--unhandled-rejections=strict", "--input-type=module", "-e", source], {
      env: { ...process.env, NODE_OPTIONS: "", ...env },
      stdio: ["ignore", "pipe", "pipe"],
    });
    const output = { stdout: "", stderr: "" };
    child.stdout.on("data", (chunk: Buffer) => (output.stdout += chunk.toString()));
    child.stderr.on("data", (chunk: Buffer) => (output.stderr += chunk.toString()));
    const killer = setTimeout(() => child.kill("SIGKILL"), 200_000);
    child.on("error", reject);
    child.on("close", (code) => {
      clearTimeout(killer);
      resolve({ ...output, code });
    });
  });

/** Everything a log could show of an error. */
export const bare = (error: unknown): string => inspect(error, { depth: 9, showHidden: true });

export const until = (check: () => boolean | Promise<boolean>, timeoutMs = 20_000): Promise<void> =>
  eventually(
    async () => {
      if (!(await check())) throw new Error("not yet");
    },
    { timeoutMs },
  );

/** Starts an inbox. Resolves with whether it is open or forbidden in time. */
export const opened = async (inbox: Inbox, timeoutMs: number): Promise<boolean> => {
  const isKnown = (): boolean => inbox.isOpen || inbox.isForbidden;
  inbox.start();
  await until(isKnown, timeoutMs).catch(() => undefined);
  return isKnown();
};

/** The same in the text of a program: waits for the inbox of its `context`. */
export const openingInbox = `await new Promise((resolve) => {
  context.inbox.onResubscribed(resolve);
  context.inbox.start();
});`;

/** Ends the connections between nodes that MIGRATE keeps open for a while. */
export const endMigrations = async (redis: TestRedis<RedisMode>): Promise<void> => {
  for (const node of redis.server.nodes)
    for (const line of String(await node.call("CLIENT", "LIST")).split("\n"))
      if (line.includes("cmd=restore-asking"))
        await node.call("CLIENT", "KILL", "ID", /id=(\d+)/.exec(line)?.[1] ?? "");
};
