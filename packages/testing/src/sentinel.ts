import type { RedisNode } from "./node.js";
import { checkReplication } from "./replication.js";

/** The Sentinels' name for their master. */
export const MASTER_NAME = "kit";
export const SENTINELS = 3;

/** The first configuration of a Sentinel. */
export function sentinelConfig(master: RedisNode, downAfterMs: number, password: string | undefined): string {
  const lines = [
    `sentinel monitor ${MASTER_NAME} ${master.host} ${master.port} 2`,
    `sentinel down-after-milliseconds ${MASTER_NAME} ${downAfterMs}`,
    // The next failover may begin after twice this time.
    `sentinel failover-timeout ${MASTER_NAME} 5000`,
    `sentinel parallel-syncs ${MASTER_NAME} 2`,
  ];
  if (password !== undefined) lines.push(`sentinel auth-pass ${MASTER_NAME} ${password}`);
  return `${lines.join("\n")}\n`;
}

/** Sends each Sentinel the hello messages of the others, which they publish only every two seconds. */
export async function introduce(sentinels: readonly RedisNode[], master: RedisNode): Promise<void> {
  for (const sentinel of sentinels) {
    const id = String(await sentinel.call("SENTINEL", "MYID"));
    const hello = [sentinel.host, sentinel.port, id, 0, MASTER_NAME, master.host, master.port, 0].join(",");
    const others = sentinels.filter((other) => other !== sentinel);
    await Promise.all(others.map((other) => other.call("PUBLISH", "__sentinel__:hello", hello)));
  }
}

/** Throws unless all Sentinels name `master`, with all replicas in step and all links up. */
export async function checkSentinels(
  sentinels: readonly RedisNode[],
  master: RedisNode,
  replicas: readonly RedisNode[],
): Promise<void> {
  await checkReplication(master, replicas);
  await Promise.all(
    sentinels.map(async (sentinel) => {
      const [view, slaves, others] = await Promise.all([
        ask(sentinel, "MASTER"),
        askList(sentinel, "REPLICAS"),
        askList(sentinel, "SENTINELS"),
      ]);
      const isWell =
        view["port"] === String(master.port) &&
        view["flags"] === "master" &&
        slaves.length === replicas.length &&
        slaves.every((slave) => slave["flags"] === "slave" && slave["master-link-status"] === "ok") &&
        others.length === sentinels.length - 1 &&
        others.every(({ flags }) => flags === "sentinel");
      if (!isWell) throw new Error(`Sentinel ${sentinel.port} does not report all nodes as healthy yet`);
    }),
  );
}

/** The master that the running Sentinels name. If they differ, the master of the latest failover. */
export async function currentMaster(sentinels: readonly RedisNode[], nodes: readonly RedisNode[]): Promise<RedisNode> {
  const answers = await Promise.all(
    sentinels
      .filter(({ state }) => state === "running")
      .map(async (sentinel) => {
        const [view, address] = await Promise.all([
          ask(sentinel, "MASTER"),
          sentinel.call("SENTINEL", "GET-MASTER-ADDR-BY-NAME", MASTER_NAME),
        ]);
        return { epoch: Number(view["config-epoch"]), port: Number((address as string[])[1]) };
      }),
  );
  const [latest] = answers.sort((a, b) => b.epoch - a.epoch);
  const master = nodes.find(({ port }) => port === latest?.port);
  if (!master) throw new Error("No running Sentinel can report the master");
  return master;
}

async function ask(sentinel: RedisNode, what: string): Promise<Record<string, string>> {
  return fields((await sentinel.call("SENTINEL", what, MASTER_NAME)) as string[]);
}

async function askList(sentinel: RedisNode, what: string): Promise<Record<string, string>[]> {
  return ((await sentinel.call("SENTINEL", what, MASTER_NAME)) as string[][]).map(fields);
}

function fields(flat: readonly string[]): Record<string, string> {
  const entries: [string, string][] = [];
  for (let at = 0; at + 1 < flat.length; at += 2) entries.push([flat[at] ?? "", flat[at + 1] ?? ""]);
  return Object.fromEntries(entries);
}
