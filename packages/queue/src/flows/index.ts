import { type Deadline, inTime, resolve } from "@kit/core/toolkit";
import { Producer, type ProducerCommands } from "../add/producer.js";
import type { AddedOnce } from "../job/added.js";
import { IdSource } from "../job/ids.js";
import type { Job } from "../job/job.js";
import { answeredKey } from "../job/keys.js";
import type { JobTypes } from "../job/types.js";
import type { Queue } from "../queue.js";
import { partsOf, type QueueParts } from "../add/parts.js";
import { children } from "../below/scripts.js";
import { takenJob } from "../work/taken-job.js";
import type { FlowChild } from "./child.js";
import { FlowTakenError, WaitForChildren } from "./errors.js";
import { assertData, type FlowEdge, type FlowJob, FlowPlan } from "./plan.js";
import {
  type ChildrenOptions,
  type ChildrenPage,
  type FlowReport,
  inspectFlow,
  pageOf,
  pageRules,
  strandedParents,
  unfinishedFlows,
} from "./inspect.js";
import { addFlow as addScript } from "./scripts/index.js";

export type { ChildrenOptions, ChildrenPage, FlowChild, FlowEdge, FlowJob, FlowReport };
export { FlowTakenError, inspectFlow, strandedParents, unfinishedFlows, WaitForChildren };

/** A flow that was added. */
export interface AddedFlow<Jobs> {
  /** The id of the root job. */
  readonly id: string;
  /** The id of each job, by the object that you passed. */
  readonly ids: ReadonlyMap<FlowJob<Jobs>, string>;
}

/** The parts that add the flows of one queue object. */
interface FlowSource {
  readonly ids: IdSource;
  readonly producer: Producer;
  /** Flows that are being added in slices. `close()` waits for them. */
  readonly adding: Set<Promise<unknown>>;
}

/** By the commands of a queue object. */
const sources = new WeakMap<object, FlowSource>();

/** The commands of a queue, whose `add` stores flows. */
const flowCommands = (commands: QueueParts["commands"]): ProducerCommands => ({
  context: commands.context,
  get isChecked() {
    return commands.isChecked;
  },
  get offsetMs() {
    return commands.offsetMs;
  },
  open: (deadlineMs) => commands.open(deadlineMs),
  learnOffset: (now, sentAt) => commands.learnOffset(now, sentAt),
  add: (args, _, deadline) => {
    const answered = answeredKey(commands.head, args.producer);
    return commands.store(addScript, { ...commands.keys, answered }, args, deadline);
  },
});

const sourceOf = (name: string, { commands, settings, producers }: QueueParts): FlowSource => {
  const known = sources.get(commands);
  if (known) return known;
  const producer = new Producer(name, flowCommands(commands), settings);
  const adding = new Set<Promise<unknown>>();
  const idle = {
    close: (deadline: Deadline) => inTime(Promise.allSettled(adding), { deadline }).then(() => undefined),
  };
  producers.push(producer, idle);
  const source = { ids: new IdSource(), producer, adding };
  sources.set(commands, source);
  return source;
};

/**
 * Adds a job with its children, and their children: all jobs or none. A job starts once all its children have ended. All jobs of a flow are
 * in one queue. A flow has at most 100,000 jobs, 64 MiB of data and 1,000 levels, and each of its jobs at most 10,000 children and 1,000
 * parents.
 *
 * A flow of up to 1,000 jobs and 4 MiB is added in one step. A larger flow is sent in slices, each within `deadlineMs`. The server stores the
 * slices separately for up to 10 minutes. When all have arrived, the jobs start, slice by slice. If the process dies before that, nothing is
 * added. If it dies after that, the next large flow of the queue or `repairQueue()` moves the remaining jobs. No parent starts before its
 * children have ended.
 * Only the root of a large flow can have an `id`.
 *
 * A child has ended when it completed, became a dead letter, expired, or was cancelled, removed or drained. If it did not complete, its
 * parent becomes a dead letter immediately. With `onFailure: "ignore"` the parent starts in any case. So a parent never waits for a child
 * that has ended. A child counts once: if you redrive a dead child after that, the parent does not notice. If you redrive a dead parent, it
 * waits again for children that have not ended.
 *
 * @throws {FlowTakenError} a job of the queue already has one of the flow's ids. Nothing was added.
 * @throws {JobPayloadError} the data of a job cannot be stored, is larger than `maxPayloadBytes`, or does not fit its schema.
 * @throws {KitUnknownOutcomeError} the reply was lost. Without an `id` a repeated call can add a second flow. With an `id` of the root, a
 *   repeated call rejects with a FlowTakenError as long as that job exists. It first moves the remaining jobs of a large flow.
 * @throws {TypeError | RangeError} the flow has a cycle, is too large, or has an invalid option.
 * @throws {KitUnavailableError | QueueFullError | QueueEvictionError} as for `queue.add()`. Nothing was added.
 *
 * @example
 * const { id } = await addFlow(queue, {
 *   name: "invoice",
 *   data: { order },
 *   children: [{ name: "charge", data: { order } }, { job: { name: "notify", data: { order } }, onFailure: "ignore" }],
 * });
 */
export const addFlow = async <Jobs extends JobTypes<Jobs>, Handled>(
  queue: Queue<Jobs, Handled>,
  flow: FlowJob<NoInfer<Jobs>>,
): Promise<AddedFlow<Jobs>> => {
  const { name } = queue;
  const parts = partsOf(queue);
  const { commands, settings, defaults } = parts;
  const { ids, producer, adding } = sourceOf(name, parts);
  const plan = new FlowPlan(flow as never, ids, { defaults, maxPayloadBytes: settings.maxPayloadBytes });
  plan.assertOwnIds();
  return await commands.life.call(
    "queue.addFlow",
    () => ({ queue: name, jobs: plan.size }),
    async () => {
      const checking = assertData(plan, settings.schemas);
      if (checking) await checking;
      const added = plan.ids as ReadonlyMap<unknown, string> as AddedFlow<Jobs>["ids"];
      if (plan.isLarge) {
        const jobs = plan.newJobs();
        const { id = "" } = jobs[0]!;
        const sending = import("../slices/index.js").then(({ addSlices }) => addSlices(commands, jobs, plan.ownRoot));
        adding.add(sending);
        if (!(await sending.finally(() => adding.delete(sending)))) throw new FlowTakenError(id);
        return { id, ids: added };
      }
      const [root] = (await producer.addGroup(plan.newJobs())) as readonly [AddedOnce];
      if (!root.isAdded) throw new FlowTakenError(root.id);
      return { id: root.id, ids: added };
    },
  );
};

/**
 * Reads the children of a job in its handler: how they ended, and their results. The results stay until the job has ended.
 *
 * @throws {TypeError | RangeError} `job` did not come from a worker, or an option is invalid.
 * @throws {KitUnavailableError} no server answered in time.
 *
 * @example
 * const { children } = await readChildren(job);
 * const paid = children.find(({ name }) => name === "charge")?.result;
 */
export const readChildren = async (job: Job, options: ChildrenOptions = {}): Promise<ChildrenPage> => {
  const { commands, id } = takenJob(job);
  const page = resolve("options", options, pageRules);
  return pageOf(await commands.run(children, { id, ...page }));
};
