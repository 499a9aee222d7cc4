import { attachedReplicas, infoFields } from "../toolkit/index.js";

/** A number from INFO or CONFIG. Undefined if the server does not report it. */
export const numberOf = (text: string | undefined): number | undefined =>
  text === undefined || !/^-?\d+$/.test(text) ? undefined : Number(text);

/** The reply to CONFIG GET: a flat list, or a map if the client uses RESP3. */
export const settingsOf = (reply: unknown): ReadonlyMap<string, string> => {
  if (reply instanceof Map) return reply as Map<string, string>;
  if (!Array.isArray(reply)) return new Map(Object.entries(reply as Record<string, string>));
  const settings = new Map<string, string>();
  for (let at = 0; at + 1 < reply.length; at += 2) settings.set(String(reply[at]), String(reply[at + 1]));
  return settings;
};

/** The fields of INFO replication. */
export interface ReplicationState {
  readonly role: "master" | "replica";
  /** The history that the offset counts in. It changes after each promotion, restart or change of master. */
  readonly replid: string;
  /** The node's offset in that history, in bytes. */
  readonly offset: number;
  readonly replicas: ReturnType<typeof attachedReplicas>;
  readonly fields: ReadonlyMap<string, string>;
}

export const replicationStateOf = (info: unknown): ReplicationState => {
  const fields = infoFields(info);
  const role = fields.get("role") === "master" ? "master" : "replica";
  const own = role === "master" ? undefined : fields.get("slave_repl_offset");
  return {
    role,
    replid: fields.get("master_replid") ?? "",
    offset: Number(own ?? fields.get("master_repl_offset")),
    replicas: attachedReplicas(fields),
    fields,
  };
};
