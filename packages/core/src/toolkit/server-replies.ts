// Parsers of server reports that more than one part of core, or the command line, uses.

/** The fields of an INFO reply, by name. */
export const infoFields = (info: unknown): ReadonlyMap<string, string> =>
  new Map(
    String(info)
      .split(/\r?\n/)
      .filter((line) => line.includes(":"))
      .map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 1)] as const),
  );

/** A replica as its master sees it. */
export interface AttachedReplicaLine {
  readonly host: string;
  readonly port: number;
  readonly state: string;
  readonly offset: number;
  readonly lagSeconds: number;
}

/** The replicas that are attached to a master, from the fields of the master's INFO. */
export const attachedReplicas = (fields: ReadonlyMap<string, string>): readonly AttachedReplicaLine[] =>
  [...fields].flatMap(([name, text]) => {
    if (!/^slave\d+$/.test(name)) return [];
    const part = new Map(text.split(",").map((pair) => [pair.split("=")[0] ?? "", pair.split("=")[1] ?? ""]));
    return {
      host: part.get("ip") ?? "",
      port: Number(part.get("port")),
      state: part.get("state") ?? "",
      offset: Number(part.get("offset")),
      lagSeconds: Number(part.get("lag")),
    };
  });

/** Product and version of a server. Valkey also reports the Redis version that it claims to be compatible with. */
export const serverVersion = (
  fields: ReadonlyMap<string, string>,
): { readonly server: "redis" | "valkey"; readonly version: string } => {
  const valkey = fields.get("valkey_version");
  return { server: valkey === undefined ? "redis" : "valkey", version: valkey ?? fields.get("redis_version") ?? "" };
};

/** A node, as described by a line of CLUSTER NODES. */
export interface ClusterMember {
  readonly id: string;
  /** Empty and 0 while the Cluster does not have the node's address. */
  readonly host: string;
  readonly port: number;
  readonly flags: readonly string[];
  /** The id of its master, or `-` for a master. */
  readonly masterId: string;
  /** Ranges of slots, and in brackets the slots that are moving, which only the node itself reports. */
  readonly slots: readonly string[];
}

/** The nodes in a reply to CLUSTER NODES. */
export const clusterMembers = (reply: unknown): readonly ClusterMember[] =>
  String(reply)
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => {
      const [id = "", address = "", flags = "", masterId = "", , , , , ...slots] = line.split(" ");
      const [, host = "", port = "0"] = /^(.*):(\d+)(?:@|$)/.exec(address) ?? [];
      return { id, host, port: Number(port), flags: flags.split(","), masterId, slots };
    });
