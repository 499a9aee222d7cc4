import { integerOption, optionsObject, signalOption, textOption } from "../toolkit/index.js";

/** On how many replicas, and on which disks, a write counts as safe. */
export interface DurabilityOptions {
  /** Any key that was written; on a Cluster it selects the shard. */
  readonly key: string;
  /**
   * How many replicas must have received the writes; 0 only with `fsync: "local"`. When this is the number of all replicas,
   * any one server can be lost without loss of the writes. With fewer, a replica without them may be promoted.
   *
   * @default 1
   */
  readonly replicas?: number | undefined;
  /**
   * Which disks must have the writes: none; the master's; or the master's and those of `replicas` replicas.
   *
   * @default "none"
   */
  readonly fsync?: "none" | "local" | "replicas" | undefined;
  /**
   * How long to wait for the acknowledgements, in milliseconds.
   *
   * @default 1000
   */
  readonly timeoutMs?: number | undefined;
  /**
   * The whole call, the writes included, settles within this many milliseconds.
   *
   * @default `timeoutMs` + 2000
   */
  readonly deadlineMs?: number | undefined;
  /** Rejects the call with `signal.reason`; what was sent may still happen. */
  readonly signal?: AbortSignal | undefined;
}

export interface ResolvedOptions {
  readonly key: string;
  readonly replicas: number;
  readonly fsync: "none" | "local" | "replicas";
  readonly timeoutMs: number;
  readonly deadlineMs: number;
  readonly signal: AbortSignal | undefined;
}

const optionNames = ["key", "replicas", "fsync", "timeoutMs", "deadlineMs", "signal"];
const fsyncs: readonly unknown[] = ["none", "local", "replicas"];

export const resolveOptions = (options: DurabilityOptions): ResolvedOptions => {
  const given = optionsObject("options", options, optionNames);
  const { replicas = 1, fsync = "none", timeoutMs = 1_000 } = given;
  const { deadlineMs = timeoutMs + 2_000 } = given;
  if (!fsyncs.includes(fsync))
    throw new TypeError(`Expected \`fsync\` to be "none", "local" or "replicas", got ${typeof fsync}`);
  const resolved = {
    key: textOption("key", given.key, 65_536),
    replicas: integerOption("replicas", replicas, 0, 1_000),
    fsync,
    timeoutMs: integerOption("timeoutMs", timeoutMs, 1, 2 ** 31 - 1),
    deadlineMs: integerOption("deadlineMs", deadlineMs, 1, 2 ** 32 - 1),
    signal: signalOption("signal", given.signal),
  };
  if (resolved.replicas === 0 && fsync !== "local")
    throw new RangeError(`Expected \`replicas\` to be from 1 with \`fsync\` "${fsync}": nothing would be waited for`);
  return resolved;
};
