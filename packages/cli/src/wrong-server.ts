import { type Connection, KitError } from "@kit/core";
import { infoFields } from "@kit/core/toolkit";
import { withoutCredentials } from "./target.js";

/** The address of the Cluster that the server of a plain address belongs to. */
const clusterOf = (url: string): string => {
  const { tls = "", host = "HOST:PORT" } =
    /^redis(?<tls>s?):\/\/(?<host>[^/?]+)/i.exec(withoutCredentials(url))?.groups ?? {};
  return `--url redis${tls}+cluster://${host},…`;
};

const hasSeveralNodes = async (redis: Connection): Promise<boolean> => {
  // A server that is not part of a Cluster refuses the command, and so may the rights of the user.
  const reply = await redis.call("CLUSTER", "INFO").catch(() => "");
  return Number(infoFields(String(reply)).get("cluster_size") ?? 1) > 1;
};

/** The warning about a plain address of one node among several; undefined: the address shows everything. */
export const partOfCluster = async (redis: Connection, url: string): Promise<string | undefined> => {
  if (/^rediss?\+/i.test(url) || !(await hasSeveralNodes(redis))) return undefined;
  return `the address names one Cluster node, which has part of the data. Use ${clusterOf(url)}`;
};

const masterOf = async (redis: Connection): Promise<string> => {
  const ask = (): Promise<unknown> => redis.call("INFO", "replication");
  // The connection that was refused a write ends, and may do so with the first of these.
  const info = infoFields(
    String(
      await ask()
        .catch(ask)
        .catch(() => ""),
    ),
  );
  const host = info.get("master_host");
  return host === undefined ? "" : `, ${host}:${info.get("master_port") ?? ""}`;
};

/** The same error in words for the command line, if the address leads to a server that cannot do it. */
export const ofWrongServer = async (error: unknown, redis: Connection, url: string): Promise<unknown> => {
  if (!(error instanceof Error)) return error;
  const { cause } = error;
  const reply = cause instanceof Error ? cause.message : error.message;
  if (/\bMOVED \d+ /.test(reply) && !/^rediss?\+cluster:/i.test(url))
    return new KitError("KIT_CLUSTER", `Another Cluster node has this key. Use ${clusterOf(url)}`);
  if (!/\bREADONLY\b/.test(reply)) return error;
  const text = "The server is a read-only replica. Nothing was changed. Use the address of its master";
  return new KitError("KIT_READONLY", `${text}${await masterOf(redis)}`);
};
