import { custom, integer, required, resolve, type Resolved, type RulesOf, signal, text } from "../toolkit/index.js";

/** The replicas and disks that must have a write before it counts as safe. */
export interface DurabilityOptions {
  /** Any key that was written. On a Cluster it selects the shard. */
  readonly key: string;
  /**
   * How many replicas must have received the writes; 0 only with `fsync: "local"`. If you require all replicas, you can lose any
   * one server and keep the writes. With fewer, a failover can promote a replica without the writes.
   *
   * @default 1
   */
  readonly replicas?: number | undefined;
  /**
   * The disks that must have the writes: none, the master's disk, or the disks of the master and of `replicas` replicas.
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
   * The maximum time of the whole call, including the writes, in milliseconds.
   *
   * @default `timeoutMs` + 2000
   */
  readonly deadlineMs?: number | undefined;
  /** Rejects the call with `signal.reason`. A write that was already sent may still happen. */
  readonly signal?: AbortSignal | undefined;
}

const durabilityRules = {
  key: required(text(65_536)),
  replicas: integer(0, 1_000, 1),
  fsync: custom((name, fsync: "none" | "local" | "replicas") => {
    if (fsync === "none" || fsync === "local" || fsync === "replicas") return fsync;
    throw new TypeError(`Expected \`${name}\` to be "none", "local" or "replicas", got ${typeof fsync}`);
  }, "none"),
  timeoutMs: integer(1, 2 ** 31 - 1, 1_000),
  deadlineMs: integer(1, 2 ** 32 - 1),
  signal,
} satisfies RulesOf<DurabilityOptions>;

export type ResolvedOptions = Resolved<typeof durabilityRules> & { readonly deadlineMs: number };

export const resolveOptions = (options: DurabilityOptions): ResolvedOptions => {
  const { deadlineMs, ...own } = resolve("options", options, durabilityRules);
  if (own.replicas === 0 && own.fsync !== "local")
    throw new RangeError(`Expected \`replicas\` to be at least 1 with \`fsync\` "${own.fsync}", got 0`);
  return { ...own, deadlineMs: deadlineMs ?? own.timeoutMs + 2_000 };
};
