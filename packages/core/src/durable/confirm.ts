import type { Address } from "../kernel/index.js";
import { Deadline, type ExclusiveConnection, newToken, pause, type ClientContext } from "../toolkit/index.js";
import { isMisrouted, type CheckedOut, look, type Look, say, toReplica } from "./connection.js";
import { tokenKey } from "./keys.js";
import type { ResolvedOptions } from "./options.js";
import { distrust } from "./trust.js";

/** The durability of writes. */
export interface Durability {
  /**
   * - `safe`: the requested replicas and disks have the writes
   * - `short`: fewer replicas or disks confirmed in time. The writes stay on the master, and may still reach the others
   * - `unknown`: kit cannot tell, for example because the connection or the server changed during the call
   */
  readonly outcome: "safe" | "short" | "unknown";
  /** How many replicas have acknowledged the writes: a lower bound. */
  readonly replicas: number;
  /** Whether the master's disk is known to have the writes, and the number of replicas whose disks have them: a lower bound. */
  readonly fsync: { readonly local: boolean; readonly replicas: number };
  /** Why the writes are not safe, in words. */
  readonly why: string | undefined;
}

interface Counts {
  replicas: number;
  local: boolean;
  synced: number;
}

const answer = (outcome: Durability["outcome"], { replicas, local, synced }: Counts, why?: string): Durability => ({
  outcome,
  replicas,
  fsync: { local, replicas: synced },
  why,
});

export const unknown = (why: string, counts: Counts = { replicas: 0, local: false, synced: 0 }): Durability =>
  answer("unknown", counts, why);

/** How a server can confirm that its disk has a write. */
type Disk = "always" | "waitaof" | "off" | { readonly why: string };

const diskOf = ({ settings, version, isRewriting }: Look): Disk => {
  const reason = version && distrust(version.server, version.version);
  const canAsk = version !== undefined && reason === undefined;
  if (!settings) return canAsk ? "waitaof" : { why: `CONFIG GET is forbidden, and ${String(reason)}` };
  if (settings.get("appendonly") !== "yes") return "off";
  const fsync = String(settings.get("appendfsync"));
  // With no-appendfsync-on-rewrite not even `always` syncs while a child of the server writes.
  const isSteady = settings.get("no-appendfsync-on-rewrite") === "no";
  if (fsync === "always" && isSteady && !isRewriting) return "always";
  if (canAsk) return "waitaof";
  const pausing = isSteady ? "" : " but may pause during a rewrite of the file";
  const unless = isRewriting ? " but a rewrite of the file is running" : pausing;
  return { why: `appendfsync is ${fsync}${unless}, and ${String(reason)}` };
};

/** The time reserved for the last INFO, in milliseconds, if the wait for acknowledgements lasts until the end. */
const lastLookMs = 50;
const markMs = 10_000;

/**
 * Asks the server of a checked-out connection for the durability of everything written on it so far, by any client.
 *
 * It writes a mark first. Since 7.2, WAIT counts only the last write of the connection that sends it, which excludes a change by an
 * earlier try whose reply was lost. Replication is one stream, so a replica that has the mark has everything before it.
 */
export const confirm = async (
  context: ClientContext,
  { connection, before, mark }: CheckedOut,
  resolved: ResolvedOptions,
  deadline: Deadline,
): Promise<Durability> => {
  const counts: Counts = { replicas: 0, local: false, synced: 0 };
  if (!before?.replication.replid)
    return unknown("INFO is forbidden or incomplete, so another server may have replied", counts);
  const disk = resolved.fsync === "none" ? "off" : diskOf(before);
  const waitUntil = Deadline.in(Math.max(1, Math.min(resolved.timeoutMs, deadline.remainingMs - lastLookMs)));
  const marking = say(connection, "SET", [mark, "1", "PX", markMs], deadline, true);
  const trouble = await count({ context, connection, before, resolved, disk, waitUntil, deadline, mark }, counts);
  const marked = await marking;
  const [after, route] = await Promise.all([
    look(connection, resolved.fsync !== "none", deadline).catch(() => undefined),
    say(connection, "TYPE", [resolved.key], deadline),
  ]);
  if ("lost" in marked || !after) return unknown(lostWhy, counts);
  if (after.replication.role !== "master") return unknown("the server became a replica meanwhile", counts);
  if (after.replication.replid !== before.replication.replid)
    return unknown(
      "the replication id changed: another server replied, or the server was a replica for a while",
      counts,
    );
  if (isMisrouted(route)) return unknown("the slot of the key is moving to another server, or has moved", counts);
  if ("refusal" in marked) return unknown(`the server rejected the mark ${mark}: ${marked.refusal.message}`, counts);
  if (trouble !== undefined) return unknown(trouble, counts);
  // In this form NaN is not enough.
  if (!(counts.replicas >= resolved.replicas))
    return answer("short", counts, `${String(counts.replicas)} of ${String(resolved.replicas)} replicas acknowledged`);
  return afterReplicas(resolved, disk, after, counts);
};

const lostWhy = "the connection failed, or the server did not answer in time";

const afterReplicas = (resolved: ResolvedOptions, disk: Disk, after: Look, counts: Counts): Durability => {
  if (resolved.fsync === "none") return answer("safe", counts);
  if (disk === "off") return answer("short", counts, "appendonly is off. Set appendonly yes");
  if (typeof disk === "object") return unknown(disk.why, counts);
  // The reply to a write under `always` comes after its sync: as long as it was `always` all the time.
  if (disk === "always" && diskOf(after) !== "always") {
    counts.local = false;
    return unknown("a rewrite of the append-only file is running, or its settings changed meanwhile", counts);
  }
  if (!counts.local) return answer("short", counts, "the master did not confirm the sync to disk in time");
  if (resolved.fsync === "replicas" && !(counts.synced >= resolved.replicas)) {
    const version = after.version && distrust(after.version.server, after.version.version);
    if (version !== undefined) return unknown(`the replicas cannot confirm a sync to disk: ${version}`, counts);
    return answer(
      "short",
      counts,
      `${String(counts.synced)} of ${String(resolved.replicas)} replicas confirmed a sync to disk`,
    );
  }
  return answer("safe", counts);
};

interface Inquiry {
  readonly context: ClientContext;
  readonly connection: ExclusiveConnection;
  readonly before: Look;
  readonly resolved: ResolvedOptions;
  readonly disk: Disk;
  readonly waitUntil: Deadline;
  readonly deadline: Deadline;
  readonly mark: string;
}

/** Waits for acknowledgements and fills `counts`. Returns the reason if they are not reliable. */
const count = async (inquiry: Inquiry, counts: Counts): Promise<string | undefined> => {
  const { connection, before, resolved, disk, deadline, waitUntil } = inquiry;
  const { replicas, fsync } = resolved;
  const restMs = (): number => Math.max(1, Math.ceil(waitUntil.remainingMs));
  if (replicas > 0) {
    const waited = await say(connection, "WAIT", [replicas, restMs()], deadline);
    if ("lost" in waited) return lostWhy;
    if ("reply" in waited) counts.replicas = Number(waited.reply);
    else if (waited.isForbidden) counts.replicas = await countOnReplicas(inquiry);
    else return waited.refusal.message;
  }
  if (disk === "always") counts.local = true;
  const canAsk = before.version && distrust(before.version.server, before.version.version) === undefined;
  const asksLocal = disk === "waitaof";
  if (!canAsk || (!asksLocal && fsync !== "replicas")) return undefined;
  const wanted = fsync === "replicas" ? replicas : 0;
  const synced = await say(connection, "WAITAOF", [asksLocal ? 1 : 0, wanted, restMs()], deadline);
  if ("lost" in synced) return lostWhy;
  if ("refusal" in synced) return synced.refusal.message;
  const [local, remote] = synced.reply as unknown[];
  counts.local ||= Number(local) > 0;
  counts.synced = Number(remote);
  return undefined;
};

/**
 * Counts replicas if WAIT is forbidden: writes a token and reads it on the master's replicas. Counts only the replicas on which the
 * token was found in time.
 */
const countOnReplicas = async (inquiry: Inquiry): Promise<number> => {
  const { context, connection, resolved, waitUntil, deadline } = inquiry;
  const token = newToken();
  const key = tokenKey(inquiry.mark, token);
  const written = await say(connection, "SET", [key, token, "PX", markMs], deadline, true);
  const now = await look(connection, false, deadline).catch(() => undefined);
  if (!("reply" in written) || !now) return 0;
  let found = 0;
  let enough = (): void => undefined;
  const isEnough = new Promise<void>((resolve) => (enough = resolve));
  const looking = now.replication.replicas.map(async ({ host, port }) => {
    if (!(await hasToken(context, { host, port }, key, token, waitUntil, () => found >= resolved.replicas))) return;
    if (++found >= resolved.replicas) enough();
  });
  await Promise.race([Promise.all(looking), isEnough]);
  return found;
};

const hasToken = async (
  context: ClientContext,
  node: Address,
  key: string,
  token: string,
  deadline: Deadline,
  isOver: () => boolean,
): Promise<boolean> => {
  const replica = await toReplica(context, node, deadline).catch(() => undefined);
  if (!replica) return false;
  try {
    for (let waitMs = 1; deadline.remainingMs > 0 && !isOver(); waitMs = Math.min(2 * waitMs, 50)) {
      const seen = await say(replica, "GET", [key], deadline);
      if ("reply" in seen && seen.reply === token) return true;
      if (!("reply" in seen)) return false;
      await pause(Math.min(waitMs, Math.max(deadline.remainingMs, 0)));
    }
    return false;
  } finally {
    replica.returnToPool(false);
  }
};
