import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from "vitest";
import { type Node, nodeOf } from "./servers.js";

/** The user that logs in. */
export interface Login {
  readonly username: string;
  readonly password: string;
  /** Makes ioredis return numbers as text. */
  readonly stringNumbers?: true;
  /** Makes the clients of the packages, if they are not those of ioredis. They are closed after the test. */
  readonly connect?: (ground: ClientGround) => object;
}

/** The members of its server that a client of another library needs. */
export interface ClientGround {
  readonly server: { readonly mode: string; readonly nodes: readonly { readonly port: number }[] };
  defer(close: () => unknown): void;
}

type Mode = "single" | "sentinel" | "cluster";

type Form = readonly [command: string, ...args: (string | number)[]];

/** The part of a package's descriptor that is read here. */
interface Descriptor {
  readonly name: string;
  readonly permissions: {
    readonly channels?: readonly string[];
    readonly tried: (key: string) => readonly Form[];
    readonly asked?: (key: string) => readonly Form[];
  };
}

/** The commands that core runs for every package, for packages with channels, and on a Cluster. */
const always = ["client|setname", "eval", "evalsha", "info", "time", "type"];
const forChannels = ["ping", "publish", "pubsub|numsub", "subscribe", "unsubscribe"];
const onCluster = ["+asking", "+cluster|info", "+cluster|slots"];

/** A client sends it only while a slot moves. `describeUser` tests that right. */
const onMoves = "asking";

const production = new URL("../../../apps/docs/production.md", import.meta.url);

/** The right to name the client's library, which ioredis does at each connection. A server before 7.2 does not load it. */
const forNewer = "+client|setinfo";

/** Whether the server of the tests is Redis 7.2 or newer, or a Valkey. */
const isNewer = (): boolean => {
  const names = [process.env["REDIS_SERVER_BIN"], "redis-server", "valkey-server"].filter((name) => !!name);
  for (const name of names as string[]) {
    try {
      const [, major, minor] = /v=(\d+)\.(\d+)\./.exec(execFileSync(name, ["--version"], { encoding: "utf8" })) ?? [];
      return Number(major) > 7 || (Number(major) === 7 && Number(minor) >= 2);
    } catch {
      // There is no such program.
    }
  }
  return false;
};

/** Commands that an ACL names together with their first argument. */
const containers = new Set(["CLIENT", "CLUSTER", "CONFIG", "FUNCTION", "OBJECT", "SCRIPT", "XGROUP", "XINFO"]);

/** The commands of a descriptor's list, as grants name them. */
export const commandsOf = ({ tried, asked }: Descriptor["permissions"]): readonly string[] =>
  [...tried("k"), ...(asked?.("k") ?? [])].map(([command, first]) =>
    (containers.has(command) ? `${command}|${String(first)}` : command).toLowerCase(),
  );

/** The ACL user that a package's descriptor describes. */
export interface AclUser {
  readonly login: Login;
  /** The login for the behaviour suites on a single server, which run with `stringNumbers`. */
  readonly loginForText: Login;
  grants(mode: Mode): readonly string[];
  /** The rules for `SETUSER`, for keys under every prefix that begins with `prefix`. */
  rulesOf(mode: Mode, prefix: string): readonly string[];
  /** Arguments of a server with this user and another for the tests' own commands. The users survive a restart. */
  serverArgs(mode: Mode): readonly string[];
}

const app: Login = { username: "app", password: "app-password" };
const root: Login = { username: "root", password: "root-password" };

/** The arguments with which MIGRATE logs in under {@link guardUsers}. */
export const migrateLogin: readonly string[] = ["AUTH2", root.username, root.password];

export const aclUser = ({ name, permissions }: Descriptor): AclUser => {
  const { channels = [] } = permissions;
  const commands = [...always, ...(channels.length === 0 ? [] : forChannels), ...commandsOf(permissions)];
  const grants = (mode: Mode): readonly string[] => [
    `~kit:${name}:*`,
    ...channels.map((channel) => `&kit:${channel}`),
    ...commands.toSorted().map((command) => `+${command}`),
    ...(mode === "cluster" ? onCluster : []),
  ];
  const rulesOf = (mode: Mode, prefix: string): readonly string[] => [
    "reset",
    "on",
    `>${app.password}`,
    ...grants(mode).map((grant) => grant.replace("kit:", `${prefix}:`)),
    ...(isNewer() ? [forNewer] : []),
  ];
  const serverArgs = (mode: Mode): readonly string[] => [
    // The last three are for `onMovingSlots`, and for clients of node-redis, which ask for their database.
    ...["--user", app.username, ...rulesOf(mode, "t-*"), "+acl|whoami", "+cluster|setslot", "+exists", "+client|info"],
    ...["--user", root.username, "on", `>${root.password}`, "~*", "&*", "+@all"],
  ];
  return { login: app, loginForText: { ...app, stringNumbers: true }, grants, rulesOf, serverArgs };
};

/** The clients of a test, logged in as a user if one is named. The shared client connects at its first use in each test. */
export const clientsOf = <Client, Options extends object, ClusterOptions>(
  redis: {
    readonly prefix: string;
    readonly client: Client;
    connect(options?: Options, clusterOptions?: ClusterOptions): Client;
  } & ClientGround,
  login: Login | undefined,
): { connect(options?: Options, clusterOptions?: ClusterOptions): Client; shared(): Client } => {
  const { connect: other, ...credentials } = login ?? {};
  const connect = (options?: Options, clusterOptions?: ClusterOptions): Client =>
    other && !options && !clusterOptions
      ? (other(redis) as Client)
      : redis.connect({ ...credentials, ...options } as Options, clusterOptions);
  const shared = new Map<string, Client>();
  return {
    connect,
    shared: () => {
      if (login === undefined) return redis.client;
      const client = shared.get(redis.prefix) ?? connect();
      shared.set(redis.prefix, client);
      return client;
    },
  };
};

/**
 * Switches the default user off for every test of the file. A test fails if a server has refused a command, or has a
 * connection of any other user than its two.
 */
export const guardUsers = (redis: {
  readonly server: { readonly nodes: readonly Node[] };
  readonly client: object;
}): void => {
  const onAll = async <T>(look: (node: Node) => Promise<T>): Promise<T[]> =>
    await Promise.all(redis.server.nodes.map(look));
  const switchOff = async (): Promise<void> => {
    await onAll((node) => node.call("ACL", "SETUSER", "default", "off"));
  };
  const expectNoRefusal = async (): Promise<void> => {
    const refusals = (await onAll((node) => node.call("ACL", "LOG"))).flat();
    // The log belongs to the server: the next test answers only for its own refusals.
    if (refusals.length > 0) await onAll((node) => node.call("ACL", "LOG", "RESET"));
    expect(
      refusals,
      "the server refused these (ACL LOG); `permissions` of src/descriptor/index.ts may lack them",
    ).toEqual([]);
  };

  beforeAll(async () => {
    logInLater(redis.client);
    await switchOff();
    // An existing connection keeps its user, so all are killed and log in again.
    await onAll((node) => node.call("CLIENT", "KILL", "TYPE", "normal"));
  });
  // After a restart the server has its default user again.
  beforeEach(switchOff);
  afterEach(async () => {
    const lists = await onAll((node) => node.call("CLIENT", "LIST"));
    const strangers = lists
      .flatMap((list) => String(list).split("\n"))
      // `cmd=NULL`: a connection that has not logged in yet.
      .filter((line) => line !== "" && !/ name=kit-testing-admin | cmd=(?:restore-asking|NULL) /.test(line))
      .filter((line) => !/ user=(?:app|root) /.test(line));
    expect(strangers).toEqual([]);
    await expectNoRefusal();
    // A Cluster client drops a killed node until a command needs it. Here only the tests' own commands would.
    const client = redis.client as Client;
    if ("nodes" in client) await new Promise<void>((resolve) => client.refreshSlotsCache(() => resolve()));
  });
  // Connections may also have been refused between the last test and their close.
  afterAll(expectNoRefusal);
};

interface SingleClient {
  readonly options: object;
}
interface ClusterClient {
  readonly options: { readonly redisOptions?: object };
  readonly connectionPool: { readonly redisOptions: object };
  nodes(role: "all"): readonly SingleClient[];
  refreshSlotsCache(done: () => void): void;
}
type Client = SingleClient | ClusterClient;

/** Makes a client log in as the tests' user at its next connection. */
const logInLater = (given: object): void => {
  const client = given as Client;
  if (!("nodes" in client)) {
    Object.assign(client.options, root);
    return;
  }
  // The options of further connections: ioredis 5 keeps this object, ioredis 6 a copy.
  Object.assign(client.options.redisOptions ?? {}, root);
  Object.assign(client.connectionPool.redisOptions, root);
  for (const node of client.nodes("all")) Object.assign(node.options, root);
};

/** The commands that clients and scripts have run since CONFIG RESETSTAT, as grants name them. */
export const usedCommands = async (nodes: readonly Node[]): Promise<string[]> => {
  const stats = await Promise.all(nodes.map((node) => node.call("INFO", "commandstats")));
  const used = new Set(
    stats.flatMap((text) => [...String(text).matchAll(/^cmdstat_(\S+):calls=[1-9]/gm)].map(([, command]) => command!)),
  );
  used.delete("config|resetstat");
  // Logging in needs no grant. Only a server from 7.2 on counts the last one.
  for (const command of ["auth", "hello", "client|setinfo", onMoves]) used.delete(command);
  return [...used].toSorted();
};

/** The commands among grants. */
export const grantedCommands = (grants: readonly string[]): string[] =>
  grants
    .filter((grant) => grant.startsWith("+"))
    .map((grant) => grant.slice(1))
    .filter((command) => command !== onMoves)
    .toSorted();

/** Expects that the commands that were used are those granted, and says where to add or remove the others. */
export const expectGranted = (used: readonly string[], granted: readonly string[]): void => {
  const without = (all: readonly string[], others: readonly string[]): string =>
    all.filter((command) => !others.includes(command)).join(", ") || "nothing";
  const advice = `add ${without(used, granted)}, remove ${without(granted, used)}`;
  expect(used, `\`permissions\` of src/descriptor/index.ts, and the ACL section of the pages: ${advice}`).toEqual(
    granted,
  );
};

/** The members of its server that the tests of a user need. */
interface UserGround<Client> {
  readonly server: { readonly mode: Mode; readonly nodes: readonly Node[] };
  readonly prefix: string;
  connect(options?: object): Client;
  defer(close: () => unknown): void;
}

/**
 * The tests of a package's ACL user that are the same for all packages. The user is sufficient for the package's work, it
 * may do nothing else, and the page with "ACL" shows it. The work returns one of the package's keys.
 */
export const describeUser = <Client extends object>(
  user: AclUser,
  redis: UserGround<Client>,
  readme: URL,
  work: (client: Client) => Promise<string>,
): void => {
  it("is sufficient for the package, and may do nothing else", async () => {
    const { prefix, server } = redis;
    const { username } = user.login;
    await Promise.all(
      server.nodes.map((node) =>
        node.call("ACL", "SETUSER", username, ...user.rulesOf(server.mode, prefix), "+acl|whoami"),
      ),
    );
    redis.defer(() => Promise.all(server.nodes.map((node) => node.call("ACL", "DELUSER", username))));
    const client = redis.connect({ ...user.login }) as Client & ScriptClient;
    expect(await client.call("ACL", "WHOAMI")).toBe(username);
    const own = await work(client);
    if (server.mode === "cluster") await expectFollowing(server.nodes, client, own);
    await expectConfined(server.nodes[0]!, client, { prefix, own, grants: user.grants(server.mode) });
  });

  it("is shown by the documents as it is", () => {
    expectShown(readme, user);
  });
};

interface ScriptClient {
  call(command: string, ...args: string[]): Promise<unknown>;
  eval(script: string, keys: number, key: string): Promise<unknown>;
}

/** Expects that a user's client reaches a key that has moved ahead of its slot. */
const expectFollowing = async (nodes: readonly Node[], client: ScriptClient, own: string): Promise<void> => {
  const absent = `${own}:absent`;
  const from = await nodeOf(nodes, absent);
  const to = nodes.find((node) => node !== from)!;
  const slot = String(await from.call("CLUSTER", "KEYSLOT", absent));
  const [fromId, toId] = [await from.call("CLUSTER", "MYID"), await to.call("CLUSTER", "MYID")];
  await to.call("CLUSTER", "SETSLOT", slot, "IMPORTING", String(fromId));
  await from.call("CLUSTER", "SETSLOT", slot, "MIGRATING", String(toId));
  try {
    expect(await client.call("TYPE", absent)).toBe("none");
  } finally {
    for (const node of [from, to]) await node.call("CLUSTER", "SETSLOT", slot, "STABLE");
  }
};

/** Expects that a user may not touch others' keys and channels, nor the server, inside scripts and outside. */
const expectConfined = async (
  node: Node,
  client: ScriptClient,
  { prefix, own, grants }: { readonly prefix: string; readonly own: string; readonly grants: readonly string[] },
): Promise<void> => {
  const hasChannels = grants.includes("+publish");
  // The same key in another package.
  const foreign = own.replace(/:\w+:/, ":other:");
  const verdictOf = (command: readonly string[]): Promise<unknown> =>
    node.call("ACL", "DRYRUN", app.username, ...command);
  const inbox = `${prefix}:inbox:x`;
  const onInbox = [
    ["PUBLISH", inbox, "m"],
    ["PUBSUB", "NUMSUB", inbox],
    ["SUBSCRIBE", inbox],
  ];
  for (const allowed of [["TYPE", own], ...(hasChannels ? onInbox : [])])
    expect([allowed, await verdictOf(allowed)]).toEqual([allowed, "OK"]);
  for (const forbidden of [
    ["TYPE", foreign],
    ["TYPE", `other:${own}`],
    ["SET", "session:1", "admin"],
    ["DEL", own, "foreign"],
    ["PUBLISH", `${prefix}:chat`, "m"],
    ["SUBSCRIBE", "other:inbox:x"],
    ["PSUBSCRIBE", "*"],
    ["KEYS", "*"],
    ["SCAN", "0"],
    ["FLUSHALL"],
    ["FLUSHDB"],
    ["CONFIG", "GET", "*"],
    ["CONFIG", "SET", "dir", "/"],
    ["SCRIPT", "FLUSH"],
    ["SCRIPT", "KILL"],
    ["CLIENT", "KILL", "TYPE", "normal"],
    ["CLIENT", "LIST"],
    ["ACL", "LIST"],
    ["MONITOR"],
    ["DEBUG", "SLEEP", "1"],
    ["SHUTDOWN"],
    ["REPLICAOF", "NO", "ONE"],
    ["MODULE", "LIST"],
    ["MIGRATE", "127.0.0.1", "1", own, "0", "1"],
    ["FUNCTION", "LIST"],
    ["RENAME", own, foreign],
    ...(grants.includes("+rename") ? [] : [["RENAME", own, own]]),
  ])
    expect([forbidden, await verdictOf(forbidden)]).toEqual([forbidden, expect.stringMatching(/no permissions/)]);

  // The same holds inside a script, even for undeclared keys. The second wording of each is that of Redis 7.2 and newer.
  const mayNotRun = /can't run this command|no permissions to run/;
  const mayNotTouch = /can't access at least one of the keys|No permissions to access a key/;
  const mayNotPublish = /can't publish|can't access at least one of the|No permissions to access a channel/;
  for (const [call, refusal] of [
    [`redis.call('TYPE', '${foreign}')`, mayNotTouch],
    ["redis.call('FLUSHALL')", mayNotRun],
    ["redis.call('CONFIG', 'GET', 'requirepass')", /can't run this command|not allowed from script/],
    ["redis.call('SETBIT', KEYS[1], 0, 1)", mayNotRun],
    [`redis.call('PUBLISH', '${prefix}:chat', 'x')`, hasChannels ? mayNotPublish : mayNotRun],
  ] as const)
    await expect(client.eval(`return ${call}`, 1, own)).rejects.toThrow(refusal);
};

/** Expects that a page's section "ACL" shows the grants, with those for a Cluster in the last row. */
const expectShown = (readme: URL, user: AclUser): void => {
  const [, rules = "", text = ""] = /^## ACL\n.*?^```\n(.*?)^```$(.*?)^## /ms.exec(readFileSync(readme, "utf8")) ?? [];
  const single = user.grants("single");
  const shown = rules.split(/\s+/).filter((word) => /^[~&+]/.test(word));
  expect(shown, "the ACL section of the pages beside `permissions` of the descriptor").toEqual(user.grants("cluster"));
  expect(shown.slice(0, single.length)).toEqual(single);
  // What ioredis needs in addition on newer servers is said for all packages in one place.
  expect(text).toContain("/production.md#each-list-of-rights)");
  const [, common = ""] = /^### Each list of rights\n(.*?)^## /ms.exec(readFileSync(production, "utf8")) ?? [];
  expect(common).toContain(`\`${forNewer}\` on Redis 7.2`);
};
