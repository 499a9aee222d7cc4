import { connect, type Connection, KitError } from "../index.js";
import { Deadline, isReplyError, reading, serverError, withContext } from "../toolkit/index.js";
import { ownSchema, type StandardSchema } from "./schema.js";

/** The entry of a component, unless the component has a custom schema. */
export interface ComponentEntry {
  /** An address as for `connect()`, with a host. It must not contain a password, because Redis stores the entry in plain text. */
  readonly url: string;
  /** The name of the password. kit passes it to `secrets`. */
  readonly secret?: string | undefined;
}

/** The second argument of `open`. */
export interface OpenContext {
  /**
   * Returns a secret by its name.
   *
   * @throws {ComponentRefusedError} there is no such secret.
   */
  readonly secret: (name: string) => Promise<string>;
  /** Aborts when the connection is no longer needed. */
  readonly signal: AbortSignal;
}

const checkMs = 2_000;

const url = /^rediss?(?:\+sentinel|\+cluster)?:\/\/(?:[^@/:]*@)?(?<hosts>[^@/?#\s]+)(?:\/[^@?#\s]*)?$/i;
const host = /^(?:\[[0-9a-f:.%]+\]|[^:[\]]+)(?::(?<port>\d{1,5}))?$/i;
const socket = /^unix:(?:\/\/)?\/[^@?#]+(?:\?db=\d{1,5})?$/;

const issueOfUrl = (given: unknown): string | undefined => {
  if (typeof given !== "string") return "must be a string";
  // Text with a colon before an @ may be a password, even in a malformed URL.
  const rest = given.replace(/^[a-z+]+:\/\//i, "");
  const colon = rest.indexOf(":");
  if (colon >= 0 && rest.includes("@", colon)) return "contains a password; name it in `secret` instead";
  const hosts = url.exec(given)?.groups?.["hosts"]?.split(",") ?? [];
  const isFine = hosts.every((one) => {
    const found = host.exec(one)?.groups;
    const port = Number(found?.["port"] ?? 1);
    return found && port >= 1 && port <= 65_535;
  });
  return socket.test(given) || (hosts.length > 0 && isFine)
    ? undefined
    : "must be an address such as redis://host:6379/0, without a question mark";
};

/** The schema of an entry, unless its component has a custom schema. */
export const entrySchema: StandardSchema<ComponentEntry, ComponentEntry> = ownSchema<ComponentEntry>((value) => {
  if (typeof value !== "object" || value === null) return { issues: [{ message: "must be an object" }] };
  const { url: address, secret, ...rest } = value as Record<string, unknown>;
  const issues = Object.keys(rest).map((key) => ({ message: "is an unknown name", path: [key] }));
  const issue = issueOfUrl(address);
  if (issue !== undefined) issues.push({ message: issue, path: ["url"] });
  if (secret !== undefined && (typeof secret !== "string" || secret === ""))
    issues.push({ message: "must be the name of a secret", path: ["secret"] });
  return issues.length > 0 ? { issues } : { value: value as ComponentEntry };
});

const loopback = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::\d+)?$/i;

/**
 * Whether a secret sent to an address is protected from other readers on the network. Sentinels and Cluster nodes on loopback are not
 * enough: they name other servers, which receive the secret as well.
 */
export const isPrivate = (address: string): boolean =>
  /^(?:rediss|unix)/i.test(address) ||
  (/^redis:/i.test(address) && loopback.test(url.exec(address)?.groups?.["hosts"] ?? ""));

/** Opens the connection that an entry describes. */
export const openConnection = async (entry: ComponentEntry, { secret, signal }: OpenContext): Promise<Connection> => {
  if (entry.secret === undefined) return await connect({ url: entry.url, signal });
  const password = await secret(entry.secret);
  // Without a name ioredis 5 sends the old form of AUTH.
  const options = entry.url.includes("@") ? { password } : { username: "default", password };
  return await connect({ url: entry.url, signal, options });
};

/** Throws unless the server replies and accepts writes. */
export const checkConnection = async (connection: Connection): Promise<void> => {
  const ask = (command: string): Promise<unknown> =>
    withContext(connection, ({ executor }) => executor.run(command, [], reading(command, Deadline.in(checkMs)))).catch(
      (error: unknown) => {
        if (!isReplyError(error)) throw error;
        throw serverError(error, command);
      },
    );
  await ask("PING");
  const role = await ask("ROLE").catch((error: KitError) => {
    // A user without the right to run ROLE gets the error at its first write.
    if (error.code === "KIT_NO_PERMISSION") return ["master"];
    throw error;
  });
  if (String((role as unknown[])[0]) !== "master")
    throw new KitError("KIT_READONLY", "the server is a replica. Use the address of its master");
};

export const closeConnection = async (connection: Connection, isForced: boolean): Promise<void> => {
  if (isForced) connection.disconnect();
  else await connection.close();
};
