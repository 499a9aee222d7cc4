/** The fields of an INFO reply, by name. */
export const fieldsOf = (info: unknown): ReadonlyMap<string, string> =>
  new Map(
    String(info)
      .split(/\r?\n/)
      .filter((line) => line.includes(":"))
      .map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 1)] as const),
  );

/** A number from INFO or CONFIG; undefined where the server does not tell it. */
export const numberOf = (text: string | undefined): number | undefined =>
  text === undefined || !/^-?\d+$/.test(text) ? undefined : Number(text);

/** What CONFIG GET said: a flat list, or a map where the client speaks RESP3. */
export const settingsOf = (reply: unknown): ReadonlyMap<string, string> => {
  if (reply instanceof Map) return reply as Map<string, string>;
  if (!Array.isArray(reply)) return new Map(Object.entries(reply as Record<string, string>));
  const settings = new Map<string, string>();
  for (let at = 0; at + 1 < reply.length; at += 2) settings.set(String(reply[at]), String(reply[at + 1]));
  return settings;
};

/** A replica as its master sees it. */
interface ReplicaLine {
  readonly host: string;
  readonly port: number;
  readonly state: string;
  readonly offset: number;
  readonly lagSeconds: number;
}

/** What INFO replication tells. */
export interface Standing {
  readonly role: "master" | "replica";
  /** The history that the offset counts in: another one after each promotion, restart or change of master. */
  readonly replid: string;
  /** How far it has come in that history, in bytes. */
  readonly offset: number;
  readonly replicas: readonly ReplicaLine[];
  readonly fields: ReadonlyMap<string, string>;
}

export const standingOf = (info: unknown): Standing => {
  const fields = fieldsOf(info);
  const role = fields.get("role") === "master" ? "master" : "replica";
  const own = role === "master" ? undefined : fields.get("slave_repl_offset");
  const replicas: ReplicaLine[] = [];
  for (const [name, text] of fields) {
    if (!/^slave\d+$/.test(name)) continue;
    const part = new Map(text.split(",").map((pair) => [pair.split("=")[0] ?? "", pair.split("=")[1] ?? ""]));
    replicas.push({
      host: part.get("ip") ?? "",
      port: Number(part.get("port")),
      state: part.get("state") ?? "",
      offset: Number(part.get("offset")),
      lagSeconds: Number(part.get("lag")),
    });
  }
  return {
    role,
    replid: fields.get("master_replid") ?? "",
    offset: Number(own ?? fields.get("master_repl_offset")),
    replicas,
    fields,
  };
};

/** Whose version of what a server is; Valkey also tells the Redis version that it claims to be compatible with. */
export const versionOf = (
  fields: ReadonlyMap<string, string>,
): { readonly server: "redis" | "valkey"; readonly version: string } => {
  const valkey = fields.get("valkey_version");
  return { server: valkey === undefined ? "redis" : "valkey", version: valkey ?? fields.get("redis_version") ?? "" };
};
