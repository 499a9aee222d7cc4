import { readFileSync } from "node:fs";
import type { RedisMode, RedisNode, TestRedis } from "@kit/testing";
import type { Cluster, Redis } from "ioredis";
import { afterAll, afterEach, beforeAll, beforeEach, expect } from "vitest";

/** Who logs in. */
export interface Login {
  readonly username: string;
  readonly password: string;
}

/** What a user of the lock may do, as `acl.txt` has it. */
export const grants = (mode: RedisMode): readonly string[] => {
  const text = readFileSync(new URL("../acl.txt", import.meta.url), "utf8");
  const lines = text.split("\n").filter((line) => line !== "" && !line.startsWith("#"));
  const [always = "", cluster = ""] = lines;
  return (mode === "cluster" ? `${always} ${cluster}` : always).split(" ");
};

export const app: Login = { username: "app", password: "app-password" };
const root: Login = { username: "root", password: "root-password" };

/** The rules for `SETUSER`, for keys under every prefix that begins so. */
export const rulesOf = (mode: RedisMode, prefix: string): readonly string[] => [
  "reset",
  "on",
  `>${app.password}`,
  ...grants(mode).map((grant) => grant.replace("kit:", `${prefix}:`)),
];

/** Arguments for a server that has the lock's user and another for the tests' own commands, also after a restart. */
export const userArgs = (mode: RedisMode): readonly string[] => [
  ...["--user", app.username, ...rulesOf(mode, "t-*"), "+acl|whoami"],
  ...["--user", root.username, "on", `>${root.password}`, "~*", "&*", "+@all"],
];

export const migrateLogin: readonly string[] = ["AUTH2", root.username, root.password];

/**
 * Switches the default user off, for every test of the file, and fails a test after which a server has refused anything
 * to anybody, or has a connection of somebody else than its two users.
 */
export const guardUsers = (redis: TestRedis<RedisMode>): void => {
  const onAll = async <T>(look: (node: RedisNode) => Promise<T>): Promise<T[]> =>
    await Promise.all(redis.server.nodes.map(look));
  const switchOff = async (): Promise<void> => {
    await onAll((node) => node.call("ACL", "SETUSER", "default", "off"));
  };
  const expectNoRefusal = async (): Promise<void> => {
    expect(await onAll((node) => node.call("ACL", "LOG"))).toEqual(redis.server.nodes.map(() => []));
  };

  beforeAll(async () => {
    logInLater(redis.client);
    await switchOff();
    // Whoever was connected before stays who it was: the test kit's own connection, which restarts may need.
    await onAll((node) => node.call("CLIENT", "KILL", "TYPE", "normal"));
  });
  // A server that was restarted has its default user back.
  beforeEach(switchOff);
  afterEach(async () => {
    const lists = await onAll((node) => node.call("CLIENT", "LIST"));
    const strangers = lists
      .flatMap((list) => String(list).split("\n"))
      // The last: one that has not even logged in yet.
      .filter((line) => line !== "" && !/ name=kit-testing-admin | cmd=(?:restore-asking|NULL) /.test(line))
      .filter((line) => !/ user=(?:app|root) /.test(line));
    expect(strangers).toEqual([]);
    await expectNoRefusal();
    // A Cluster client forgets a node that was killed until a command misses it; here only the tests' own would.
    const client: Redis | Cluster = redis.client;
    if ("nodes" in client) await new Promise((resolve) => client.refreshSlotsCache(resolve));
  });
  // What was closed after the last test has spoken, too.
  afterAll(expectNoRefusal);
};

/** From its next connection on, the client is the tests' user. */
const logInLater = (client: Redis | Cluster): void => {
  if (!("nodes" in client)) {
    Object.assign(client.options, root);
    return;
  }
  // What its further connections are made with: ioredis 5 keeps the very options, 6 a copy.
  const { connectionPool } = client as unknown as { connectionPool: { redisOptions: object } };
  Object.assign(client.options.redisOptions ?? {}, root);
  Object.assign(connectionPool.redisOptions, root);
  for (const node of client.nodes("all")) Object.assign(node.options, root);
};
