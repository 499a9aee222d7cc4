import { traceCarrier } from "@kit/core/toolkit";
import type { JobToAdd } from "../queue.js";
import type { NewJob } from "../add/producer.js";
import { type AddDefaults, type AddOptions, resolveAdd, type ResolvedAdd } from "../add/options.js";
import { IdSource } from "../job/ids.js";
import { encodePayload, headOf, type Payload, readPayload } from "../job/payload.js";
import { assertFits, type SchemaMap } from "../job/schemas.js";
import { letters, planned } from "../job/words.js";
import { maxAdded } from "../store/scripts/added.js";

/** What happens to a parent when a child does not complete. */
type OnFailure = "fail" | "ignore";

/** A child, and what happens to its parent when the child does not complete. */
export interface FlowEdge<Jobs> {
  readonly job: FlowJob<Jobs>;
  /**
   * - `"fail"`: the parent becomes a dead letter immediately, with the child's error as its cause.
   * - `"ignore"`: the parent waits for its other children, and then runs. It finds the failure with `readChildren()`.
   *
   * @default "fail"
   */
  readonly onFailure?: OnFailure | undefined;
}

/**
 * A job of a flow, with the options of `add()` except `unique`, `op` and `signal`. If you use the same object in several places, it is one
 * job with several parents.
 */
export type FlowJob<Jobs> = WithoutKey<JobToAdd<Jobs>> & {
  /** The jobs that end before this one starts. A job without children can start immediately. */
  readonly children?: readonly (FlowJob<Jobs> | FlowEdge<Jobs>)[] | undefined;
};

type WithoutKey<Job> = Job extends unknown ? Omit<Job, "unique"> : never;

/** A job or an edge of any queue. */
type AnyNode = FlowJob<Record<string, (data: unknown) => unknown>>;
type AnyEdge = AnyNode | { readonly job: AnyNode; readonly onFailure?: unknown };

/** The maximum size of a flow that is added in one step, or that a handler adds. */
const oneStep = { jobs: maxAdded, bytes: 4 * 1_024 * 1_024 };
/** The maximum size of any other flow. */
const inSlices = { jobs: 100_000, bytes: 64 * 1_024 * 1_024 };
/** The maximum number of children of one job, which also bounds the time of the step that ends it. */
const maxChildren = 10_000;
/** The maximum number of parents of one job. It bounds the same, since each parent gets the job's outcome in that step. */
const maxParents = 1_000;
/** The maximum number of jobs on a path from the root. */
const maxLevels = 1_000;

interface PlannedJob {
  readonly name: string;
  readonly id: string;
  readonly payload: Payload;
  readonly resolved: ResolvedAdd;
  readonly children: number;
  /** The value of the option `flow` in its header, and for how many parents. */
  parents: string;
  above: number;
  /** Its children, in order. */
  readonly below: PlannedJob[];
}

/** The settings of the queue. */
interface PlanSettings {
  readonly defaults: AddDefaults;
  readonly maxPayloadBytes: number;
}

const notInFlows = ["unique", "op", "signal"] as const;

const edgeOf = (child: AnyEdge): { readonly job: AnyNode; readonly letter: string } => {
  const isEdge = typeof child === "object" && child !== null && "job" in child;
  const { job, onFailure = "fail" } = isEdge ? child : { job: child as AnyNode };
  if (onFailure !== "fail" && onFailure !== "ignore")
    throw new TypeError(`Expected \`onFailure\` to be "fail" or "ignore"`);
  return { job, letter: onFailure === "fail" ? "f" : "i" };
};

/** The jobs of one flow. The first one is the root. */
export class FlowPlan {
  readonly #ids: IdSource;
  readonly #settings: PlanSettings;
  readonly #jobs = new Map<AnyNode, PlannedJob>();
  readonly #taken = new Set<string>();
  readonly #most: typeof oneStep;
  #bytes = 0;

  /**
   * With `parent`, the root is a job of this id that is stored already: only the jobs below it are planned.
   *
   * @throws {TypeError | RangeError} the flow has a cycle, or is too large; a job or an option is invalid.
   * @throws {JobPayloadError} the data of a job cannot be stored.
   */
  constructor(root: Pick<AnyNode, "children">, ids: IdSource, settings: PlanSettings, parent?: string) {
    this.#ids = ids;
    this.#settings = settings;
    this.#most = parent === undefined ? inSlices : oneStep;
    if (parent === undefined) this.#visit(root as AnyNode, []);
    else this.#addBelow(parent, root.children ?? [], []);
  }

  get size(): number {
    return this.#jobs.size;
  }

  /** The flow is added in slices. */
  get isLarge(): boolean {
    return this.#jobs.size > oneStep.jobs || this.#bytes > oneStep.bytes;
  }

  /** The id of the root, if the caller chose it. */
  get ownRoot(): string | undefined {
    return this.#first.resolved.id;
  }

  get #first(): PlannedJob {
    return this.#jobs.values().next().value!;
  }

  /**
   * Only the first slice can check whether a chosen id is free.
   *
   * @throws {TypeError} the flow is added in slices, and a job below its root has an `id`.
   */
  assertOwnIds(): void {
    const [, ...below] = this.#jobs.values();
    if (this.isLarge && below.some(({ resolved }) => resolved.id !== undefined))
      throw new TypeError(
        `Expected no \`id\` below the root of a flow of more than ${String(oneStep.jobs)} jobs or ${String(oneStep.bytes)} bytes`,
      );
  }

  /** The jobs, each after its parents. */
  #sorted(): readonly PlannedJob[] {
    const above = new Map<PlannedJob, number>();
    for (const { below } of this.#jobs.values()) for (const job of below) above.set(job, (above.get(job) ?? 0) + 1);
    const sorted = [this.#first];
    // The loop also visits the jobs that it adds.
    for (const { below } of sorted)
      for (const job of below) {
        const left = above.get(job)! - 1;
        above.set(job, left);
        if (left === 0) sorted.push(job);
      }
    return sorted;
  }

  /** The id of each job. */
  get ids(): Map<AnyNode, string> {
    return new Map(Array.from(this.#jobs, ([node, { id }]) => [node, id]));
  }

  /** The name and the data of each job, as its worker will read them. */
  get payloads(): readonly Pick<PlannedJob, "name" | "payload">[] {
    return [...this.#jobs.values()];
  }

  /** The jobs as the server stores them. `current`: the span that adds them. */
  newJobs(current = traceCarrier()?.current()): NewJob[] {
    const jobs = this.isLarge ? this.#sorted() : [...this.#jobs.values()];
    return jobs.map(({ name, id, payload, resolved, children, parents }, index) => {
      const { policy, priority, group, words, traceparent = current } = resolved;
      const flow = [`${letters.flow}${parents}`];
      return {
        head: headOf(name, policy, priority, typeof payload !== "string", undefined, flow, traceparent, group),
        payload,
        id,
        words:
          words +
          (resolved.id === undefined ? "" : planned("ifNew")) +
          (children === 0 ? "" : planned("open", children)) +
          (index === 0 ? planned("root") : ""),
        op: undefined,
        call: undefined,
        isOnce: index === 0,
        isRepeat: false,
        isRepeatable: false,
        isGivenUp: false,
      };
    });
  }

  /** Plans a job and what is below it. `path`: the jobs above it. */
  #visit(node: AnyNode, path: readonly AnyNode[]): PlannedJob {
    const start = path.indexOf(node);
    if (start >= 0) {
      const circle = [...path.slice(start), node].map(({ name }) => name);
      throw new TypeError(`Expected a flow without cycles, got ${circle.join(" -> ")}`);
    }
    const known = this.#jobs.get(node);
    if (known) return known;
    const { children = [], job } = this.#plan(node);
    this.#jobs.set(node, job);
    if (this.#jobs.size > this.#most.jobs)
      throw new RangeError(`Expected a flow of at most ${String(this.#most.jobs)} jobs`);
    if (children.length > maxChildren)
      throw new RangeError(`Expected at most ${String(maxChildren)} children of a job, got ${String(children.length)}`);
    if (path.length === maxLevels) throw new RangeError(`Expected a flow of at most ${String(maxLevels)} levels`);
    job.below.push(...this.#addBelow(job.id, children, [...path, node]));
    return job;
  }

  #addBelow(id: string, children: readonly AnyEdge[], path: readonly AnyNode[]): readonly PlannedJob[] {
    // Not `map`, which skips holes of the array.
    return Array.from(children, (child, index) => {
      const { job, letter } = edgeOf(child);
      const planned = this.#visit(job, path);
      const parent = `,${letter}${String(index)}:${encodeURIComponent(id)}`;
      planned.parents += parent;
      if (++planned.above > maxParents) throw new RangeError(`Expected at most ${String(maxParents)} parents of a job`);
      this.#addBytes(parent.length);
      return planned;
    });
  }

  #plan(node: AnyNode): { readonly children: readonly AnyEdge[] | undefined; readonly job: PlannedJob } {
    if (typeof node !== "object" || node === null) throw new TypeError("Expected each job of a flow to be an object");
    const { name, data, children, ...options } = node as AnyNode & AddOptions;
    if (children !== undefined && !Array.isArray(children)) throw new TypeError("Expected `children` to be an array");
    for (const option of notInFlows)
      if (options[option] !== undefined) throw new TypeError(`Expected no \`${option}\` for a job of a flow`);
    const resolved = resolveAdd(options, this.#settings.defaults);
    const count = children?.length ?? 0;
    if (options.lifo && count > 0) throw new TypeError("Expected no `lifo` for a job with children");
    const payload = encodePayload(name, data, this.#settings.maxPayloadBytes);
    this.#addBytes(payload.length);
    const id = resolved.id ?? this.#ids.take(1)[0]!;
    if (this.#taken.has(id))
      throw new TypeError(`Expected the jobs of a flow to have different ids, got ${JSON.stringify(id)} twice`);
    this.#taken.add(id);
    return { children, job: { name, id, payload, resolved, children: count, parents: "", above: 0, below: [] } };
  }

  /** Counts bytes of data, or of the ids of parents. */
  #addBytes(bytes: number): void {
    this.#bytes += bytes;
    if (this.#bytes > this.#most.bytes)
      throw new RangeError(`Expected the data of a flow to have at most ${String(this.#most.bytes)} bytes`);
  }
}

/**
 * Resolves if the data of all jobs fit their schemas. Undefined if the check was synchronous.
 *
 * @throws {JobPayloadError} the data of a job does not fit.
 */
export const assertData = (plan: FlowPlan, schemas: SchemaMap): Promise<unknown> | undefined => {
  const checks = plan.payloads.flatMap(({ name, payload }) => {
    const schema = schemas.get(name);
    return (schema && assertFits(schema, name, readPayload(payload))) ?? [];
  });
  return checks.length > 0 ? Promise.all(checks) : undefined;
};
