import type { RedisLike } from "../index.js";
import { type ClientContext, traced } from "../toolkit/index.js";
import { numberOf, settingsOf } from "./info.js";
import { replyTo, type ReportOptions, type Seen, survey } from "./survey.js";

/** The possible loss, in words and, if known, in numbers. Without loss both numbers are 0. */
export interface Loss {
  readonly text: string;
  /** The maximum number of lost changes. Undefined if not known. */
  readonly changes: number | undefined;
  /** The maximum age of a lost change, in milliseconds. Undefined if not known. */
  readonly ms: number | undefined;
}

/** How one node keeps its data, as plain data. Fields from CONFIG GET are undefined if CONFIG GET is forbidden. */
export interface NodePersistence {
  /** `host:port`, as its neighbors or the client name it. */
  readonly address: string;
  /** Why the node could not be read. All fields below are then undefined. */
  readonly error: string | undefined;
  readonly role: "master" | "replica" | undefined;
  readonly snapshots: SnapshotState | undefined;
  readonly appendOnly: AppendOnlyState | undefined;
  /** The folder of its files (`dir`). */
  readonly folder: string | undefined;
  readonly atRisk:
    | {
        /** The loss if the server process were killed now (`kill -9`) while its machine kept running. */
        readonly kill: Loss;
        /** The loss if the machine lost power now. */
        readonly powerCut: Loss;
      }
    | undefined;
}

/** Snapshots (RDB). */
export interface SnapshotState {
  /**
   * `save`: a snapshot is made after `afterMs` milliseconds with at least `changes` changes. Empty: the server makes none on its
   * own.
   */
  readonly points: readonly { readonly afterMs: number; readonly changes: number }[] | undefined;
  /** `dbfilename`. */
  readonly file: string | undefined;
  /** `rdbcompression`. */
  readonly isCompressed: boolean | undefined;
  /** Whether writes are refused after a snapshot failed (`stop-writes-on-bgsave-error`). */
  readonly stopsWritesOnError: boolean | undefined;
  /** Whether the last snapshot succeeded. */
  readonly lastOk: boolean;
  /** When the last snapshot succeeded, or the server started: epoch milliseconds on the server's clock. */
  readonly lastAt: number | undefined;
  /** The time since `lastAt`, in milliseconds on the server's clock. */
  readonly ageMs: number | undefined;
  readonly isRunning: boolean;
  /** Changes since the last snapshot. */
  readonly changesSince: number | undefined;
}

/** The append-only file (AOF). */
export interface AppendOnlyState {
  /** Whether the file is written (`appendonly`). */
  readonly isOn: boolean;
  /** `appendfsync`. */
  readonly fsync: "always" | "everysec" | "no" | undefined;
  /** Whether nothing is synced while a child of the server writes (`no-appendfsync-on-rewrite`). */
  readonly pausesOnRewrite: boolean | undefined;
  /**
   * The growth at which the file is rewritten, in percent (`auto-aof-rewrite-percentage`). 0: the server never rewrites it on its
   * own.
   */
  readonly rewriteAtPercent: number | undefined;
  /** The size that the file must also exceed for a rewrite, in bytes (`auto-aof-rewrite-min-size`). */
  readonly rewriteAtBytes: number | undefined;
  readonly bytes: number | undefined;
  /** The file's size after the last rewrite. */
  readonly baseBytes: number | undefined;
  readonly isRewriting: boolean;
  /** Whether the last rewrite succeeded. The server does not report its time. */
  readonly lastRewriteOk: boolean;
  /** How long the last rewrite took, in whole seconds as milliseconds. Undefined if there was none since the server started. */
  readonly lastRewriteMs: number | undefined;
  /** Whether the last write to the file succeeded. */
  readonly lastWriteOk: boolean;
  /** Bytes that are acknowledged but not yet written to the file, because the disk is slow. */
  readonly bufferedBytes: number | undefined;
}

/**
 * Reports how all servers that replicate from each other persist their data, whether the last snapshot and rewrite worked, and what
 * a crash now would lose. On a Cluster it covers all nodes. It visits up to 100 nodes. A node that does not answer has an `error`
 * in its row, and the call still resolves.
 *
 * @example
 * for (const { address, atRisk } of await persistenceReport(redis)) console.log(address, atRisk?.powerCut.text);
 */
export const persistenceReport = async (
  redis: RedisLike | ClientContext,
  options: ReportOptions = {},
): Promise<NodePersistence[]> =>
  await traced(
    "core.persistenceReport",
    () => ({}),
    async () => {
      const seen = await survey(redis, options, async (connection, deadline) => {
        const [config, time] = await Promise.all([
          replyTo(connection, "CONFIG", ["GET", "*"], deadline).catch(() => undefined),
          replyTo(connection, "TIME", [], deadline).catch(() => undefined),
        ]);
        const [seconds, micros] = (time as unknown[] | undefined) ?? [];
        return {
          settings: config === undefined ? new Map<string, string>() : settingsOf(config),
          nowMs: time === undefined ? undefined : Number(seconds) * 1_000 + Number(micros) / 1_000,
        };
      });
      return seen.map(rowOf);
    },
  );

interface More {
  readonly settings: ReadonlyMap<string, string>;
  readonly nowMs: number | undefined;
}

const rowOf = ({ address, error, replication, info, more }: Seen<More>): NodePersistence => {
  const unknown = {
    role: undefined,
    snapshots: undefined,
    appendOnly: undefined,
    folder: undefined,
    atRisk: undefined,
  };
  if (!replication || !more) return { address, error, ...unknown };
  const snapshots = snapshotsOf(info, more);
  const appendOnly = appendOnlyOf(info, more.settings);
  return {
    address,
    error,
    role: replication.role,
    snapshots,
    appendOnly,
    folder: more.settings.get("dir"),
    atRisk: { kill: byKill(snapshots, appendOnly), powerCut: byPowerCut(snapshots, appendOnly, info) },
  };
};

const yesNo = (text: string | undefined): boolean | undefined => (text === undefined ? undefined : text === "yes");

const snapshotsOf = (info: ReadonlyMap<string, string>, { settings, nowMs }: More): SnapshotState => {
  const save = settings.get("save");
  const parts = save?.split(" ").filter(Boolean).map(Number) ?? [];
  const points = parts.flatMap((seconds, at) =>
    at % 2 === 0 ? [{ afterMs: seconds * 1_000, changes: parts[at + 1] ?? 0 }] : [],
  );
  const lastSeconds = numberOf(info.get("rdb_last_save_time"));
  const lastAt = lastSeconds === undefined ? undefined : lastSeconds * 1_000;
  return {
    points: save === undefined ? undefined : points,
    file: settings.get("dbfilename"),
    isCompressed: yesNo(settings.get("rdbcompression")),
    stopsWritesOnError: yesNo(settings.get("stop-writes-on-bgsave-error")),
    lastOk: info.get("rdb_last_bgsave_status") === "ok",
    lastAt,
    ageMs: lastAt === undefined || nowMs === undefined ? undefined : Math.max(0, Math.round(nowMs - lastAt)),
    isRunning: info.get("rdb_bgsave_in_progress") === "1",
    changesSince: numberOf(info.get("rdb_changes_since_last_save")),
  };
};

const appendOnlyOf = (info: ReadonlyMap<string, string>, settings: ReadonlyMap<string, string>): AppendOnlyState => {
  const seconds = numberOf(info.get("aof_last_rewrite_time_sec"));
  return {
    isOn: info.get("aof_enabled") === "1",
    fsync: settings.get("appendfsync") as AppendOnlyState["fsync"],
    pausesOnRewrite: yesNo(settings.get("no-appendfsync-on-rewrite")),
    rewriteAtPercent: numberOf(settings.get("auto-aof-rewrite-percentage")),
    rewriteAtBytes: numberOf(settings.get("auto-aof-rewrite-min-size")),
    bytes: numberOf(info.get("aof_current_size")),
    baseBytes: numberOf(info.get("aof_base_size")),
    isRewriting: info.get("aof_rewrite_in_progress") === "1" || info.get("aof_rewrite_scheduled") === "1",
    lastRewriteOk: info.get("aof_last_bgrewrite_status") === "ok",
    lastRewriteMs: seconds === undefined || seconds < 0 ? undefined : seconds * 1_000,
    lastWriteOk: info.get("aof_last_write_status") === "ok",
    bufferedBytes: numberOf(info.get("aof_buffer_length")),
  };
};

const nothingLost = (text: string): Loss => ({ text, changes: 0, ms: 0 });
const unknownLoss = (text: string): Loss => ({ text, changes: undefined, ms: undefined });

const sinceSnapshot = ({ changesSince, points }: SnapshotState): Loss => {
  const never = points?.length === 0 ? "; the server makes none automatically" : "";
  return changesSince === 0
    ? nothingLost(`nothing: no change since the last snapshot${never}`)
    : {
        text: `the ${String(changesSince ?? "unknown number of")} changes since the last snapshot${never}`,
        changes: changesSince,
        ms: undefined,
      };
};

const byKill = (snapshots: SnapshotState, { isOn, lastWriteOk, isRewriting, bufferedBytes }: AppendOnlyState): Loss => {
  if (!isOn) return sinceSnapshot(snapshots);
  if (!lastWriteOk) return unknownLoss("all changes since writes to the append-only file started to fail");
  if (isRewriting)
    return unknownLoss("unknown during a rewrite of the append-only file: all changes, if the file was off before");
  if (bufferedBytes) return unknownLoss(`the ${String(bufferedBytes)} bytes in the buffer of a slow disk`);
  return nothingLost("nothing: all acknowledged changes are in the file");
};

const byPowerCut = (snapshots: SnapshotState, appendOnly: AppendOnlyState, info: ReadonlyMap<string, string>): Loss => {
  const { isOn, fsync, pausesOnRewrite } = appendOnly;
  const killed = byKill(snapshots, appendOnly);
  if (!isOn || killed.changes !== 0) return killed;
  const childRuns = appendOnly.isRewriting || snapshots.isRunning;
  if (fsync !== undefined && pausesOnRewrite && childRuns)
    return unknownLoss("all changes since the current rewrite or snapshot started: nothing is synced meanwhile");
  if (fsync === "always") return nothingLost("nothing: all acknowledged changes are on disk");
  if (fsync === "no")
    return unknownLoss("all changes that the operating system has not written yet, often the last 30 s");
  if (fsync === undefined) return unknownLoss("unknown: kit cannot read appendfsync");
  return numberOf(info.get("aof_pending_bio_fsync"))
    ? { text: "up to 2 s: a sync is still running", changes: undefined, ms: 2_000 }
    : { text: "up to 1 s", changes: undefined, ms: 1_000 };
};
