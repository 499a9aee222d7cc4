import { destroySocket, isClusterClient, isForsaken, isReady, type NodeClient, type RedisLike } from "./client.js";
import { isOwned } from "./supervision.js";

/** Cached per socket, because a client that connects again may reach another server. */
const known = new WeakMap<object, Promise<string>>();

/** The fields of INFO. Empty if the user may not run INFO, or the connection ends first. */
const infoOf = (connection: NodeClient): Promise<string> => connection.call("INFO").then(String, () => "");

const isReplica = (info: string): boolean => info.includes("role:slave");

/** The server's INFO when this connection first asked. */
const firstInfoOf = (connection: NodeClient): Promise<string> => {
  const { stream } = connection;
  if (!stream) return Promise.resolve("");
  let info = known.get(stream);
  if (!info) known.set(stream, (info = infoOf(connection)));
  return info;
};

/** The run id of a server. Empty if INFO does not have it. */
const runIdIn = (info: string): string => /^run_id:(\w+)/m.exec(info)?.[1] ?? "";

/**
 * Whether a kit connection leads to another server than the client's commands. An address may lead to a new server (DNS, a virtual
 * IP, a proxy, Sentinels that disagree), while older connections stay with the previous server. If the previous server is now a
 * replica, it still serves reads and delivers messages.
 *
 * `isOlder`: the client has connected since. This decides if the run ids are unknown.
 *
 * Returns false while the client or the connection is not ready; callers ask again when both are. On a Cluster, where nodes
 * redirect commands, returns whether the client has dropped the connection's node.
 */
export const leadsElsewhere = async (connection: NodeClient, client: RedisLike, isOlder: boolean): Promise<boolean> => {
  if (isClusterClient(client)) return isForsaken(connection, client);
  // Connections for reads from any replica lead to several servers.
  if (!isReady(connection) || connection.options.role === "slave") return false;
  // It asks first, even if there is nothing to compare with yet: a connection that has subscribed cannot run INFO any more.
  const own = firstInfoOf(connection);
  if (!isReady(client)) return false;
  const infos = await Promise.all([own, firstInfoOf(client as NodeClient)]);
  if (!isReady(connection) || !isReady(client)) return false;
  const [id, clientsId] = infos.map(runIdIn);
  if (!id || !clientsId) return isOlder;
  if (id === clientsId || isOlder) return id !== clientsId;
  // An address of several replicas leads to any of them.
  return !isReplica(infos[0]) && !(await isLeft(client as NodeClient));
};

/**
 * Whether the client stayed with the previous server. A new connection shows where the address leads now, while a former master
 * that is now a replica still serves a client that only reads. A client that kit made is reconnected.
 */
const isLeft = async (client: NodeClient): Promise<boolean> => {
  const { stream } = client;
  if (!isReplica(await infoOf(client))) return false;
  if (stream === client.stream && isOwned(client)) destroySocket(client);
  return true;
};
