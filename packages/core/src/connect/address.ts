import type { RedisOptions } from "ioredis";
import { KitError } from "../kernel/index.js";

/** The server that a URL describes. */
export interface Target {
  readonly settings: RedisOptions;
  /** Only for a Cluster. */
  readonly nodes?: { host: string; port: number }[] | undefined;
}

const urlForm =
  /^(?<scheme>rediss?(?:\+sentinel|\+cluster)?):\/\/(?:(?<user>[^@/]*)@)?(?<hosts>[^/?]*)(?<path>\/[^?]*)?(?:\?(?<query>.*))?$/i;
/** The address if none is given. */
export const defaultAddress = "redis://127.0.0.1:6379";
const badTarget = (why: string): KitError =>
  new KitError("KIT_TARGET", `Cannot connect: ${why}. Example: ${defaultAddress}`);

const decoded = (text: string): string => {
  try {
    return decodeURIComponent(text);
  } catch {
    throw badTarget("the address has an invalid percent-escape");
  }
};

const hostList = (hosts: string, defaultPort: number): { host: string; port: number }[] =>
  hosts.split(",").map((entry) => {
    // No "@": the text before it would be part of a password, and messages show hosts.
    const [, host, port] = /^(\[[0-9a-f:.%]+\]|[^:@\s\p{C}]*)(?::(\d+))?$/iu.exec(entry) ?? [];
    const number = port === undefined ? defaultPort : Number(port);
    if (host === undefined || number < 1 || number > 65_535) throw badTarget("the address has an invalid host or port");
    return { host: decoded(host.replace(/^\[|\]$/g, "")) || "127.0.0.1", port: number };
  });

const database = (text: string | undefined): number | undefined => {
  if (text === undefined || text === "") return undefined;
  if (!/^\d{1,5}$/.test(text)) throw badTarget("the database must be a number");
  return Number(text);
};

/**
 * Parses a URL. Errors never quote it, because it may contain a password.
 *
 * @throws {KitError} `KIT_TARGET`: it is malformed.
 */
export const parseAddress = (url: string): Target => {
  const unix = /^unix:(?:\/\/)?(?<path>\/[^?]*)(?:\?db=(?<db>.*))?$/.exec(url)?.groups;
  if (unix) {
    const db = database(unix["db"]);
    return { settings: { path: decoded(unix["path"] ?? ""), ...(db === undefined ? {} : { db }) } };
  }
  const parts = urlForm.exec(url)?.groups;
  if (!parts)
    throw badTarget(
      "the address must start with redis: or rediss: (or with these and +sentinel or +cluster), or unix:",
    );
  const scheme = parts["scheme"]?.toLowerCase() ?? "";
  if (parts["query"]) throw badTarget("the address must not have a question mark. Pass options in `options`");
  const settings: RedisOptions = {};
  const [, user, password] = /^([^:]*)(?::(.*))?$/s.exec(parts["user"] ?? "") ?? [];
  if (password) {
    // Without a name ioredis 5 sends the old form of AUTH, and prints when the server wants no password.
    settings.username = user ? decoded(user) : "default";
    settings.password = decoded(password);
  } else if (user) settings.username = decoded(user);
  if (scheme.startsWith("rediss")) settings.tls = {};
  const path = (parts["path"] ?? "").slice(1);
  if (path.includes("@")) throw badTarget("the user name and the password must be percent-encoded");
  const hosts = parts["hosts"] ?? "";
  if (scheme.endsWith("+cluster")) {
    if (path !== "" && path !== "0") throw badTarget("a Cluster has only database 0");
    return { nodes: hostList(hosts, 6379), settings };
  }
  if (scheme.endsWith("+sentinel")) {
    const [name, db] = path.split("/");
    if (!name)
      throw badTarget("the Sentinel address must end with the master's name, such as redis+sentinel://h1,h2/name");
    const number = database(db);
    if (number !== undefined) settings.db = number;
    return { settings: { ...settings, sentinels: hostList(hosts, 26379), name: decoded(name) } };
  }
  const [address, ...others] = hostList(hosts, 6379);
  if (!address || others.length > 0) throw badTarget("only Sentinel and Cluster addresses may list several hosts");
  const number = database(path);
  if (number !== undefined) settings.db = number;
  return { settings: { ...settings, ...address } };
};

/** Hosts and ports, for messages. Never credentials. */
export const addressText = ({ nodes, settings: { path, sentinels, host, port } }: Target): string =>
  path ??
  (nodes ?? sentinels ?? [{ host, port }]).map((node) => `${String(node.host)}:${String(node.port)}`).join(", ");
