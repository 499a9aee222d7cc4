import { destroySocket, isClusterClient, isForsaken, isReady, type NodeClient, type RedisLike } from "./client.js";
import { isOwned } from "./supervision.js";

/** Cached by socket, since a client that connects again may reach another server. */
const known = new WeakMap<object, Promise<string>>();

/** The fields of INFO server; empty where the user may not run INFO, or the connection ends first. */
const infoOf = (connection: NodeClient): Promise<string> => connection.call("INFO").then(String, () => "");

const isReplica = (info: string): boolean => info.includes("role:slave");

/** As the server was when this connection first asked. */
const firstInfoOf = (connection: NodeClient): Promise<string> => {
  const { stream } = connection;
  if (!stream) return Promise.resolve("");
  let info = known.get(stream);
  if (!info) known.set(stream, (info = infoOf(connection)));
  return info;
};

/** The run id of a server; empty where INFO does not have it. */
const runIdIn = (info: string): string => /^run_id:(\w+)/m.exec(info)?.[1] ?? "";

/**
 * Whether a connection of ours leads to another server than the commands of the client. An address may lead to another server
 * than a moment ago (DNS, a virtual IP, a proxy, Sentinels that disagree), while older connections stay with the former one.
 * That one, as a replica, still serves reads and delivers messages.
 *
 * `isOlder`: the client has connected since. That decides where the run ids are unknown.
 *
 * False while one of them is not ready: this is called again when it is. On a Cluster, whose nodes redirect: whether the client
 * has dropped its node.
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
 * Whether the client stayed with the former server. A connection made later shows where the address leads now, while a former
 * master, as a replica, still serves a client that only reads. A client of ours is connected anew.
 */
const isLeft = async (client: NodeClient): Promise<boolean> => {
  const { stream } = client;
  if (!isReplica(await infoOf(client))) return false;
  if (stream === client.stream && isOwned(client)) destroySocket(client);
  return true;
};
