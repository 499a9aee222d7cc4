import type { RedisNode } from "./node.js";

/** Throws unless `master` is a master, and `replicas` follow it and have all the data that it had when they connected. */
export async function checkReplication(master: RedisNode, replicas: readonly RedisNode[]): Promise<void> {
  const own = String(await master.call("INFO", "replication"));
  if (!own.includes("role:master\r\n")) throw new Error(`The server on port ${master.port} is not a master`);
  const online = own.match(/^slave\d+:.*state=online/gm)?.length ?? 0;
  if (online < replicas.length)
    throw new Error(`${online} of ${replicas.length} replicas of ${master.port} are online`);
  await Promise.all(
    replicas.map(async (replica) => {
      const info = String(await replica.call("INFO", "replication"));
      const wanted = ["role:slave", `master_port:${master.port}`, "master_link_status:up"];
      const missing = wanted.filter((line) => !info.includes(`${line}\r\n`));
      if (missing.length > 0) throw new Error(`Replica ${replica.port} does not report ${missing.join(", ")} yet`);
    }),
  );
}
