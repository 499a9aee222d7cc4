import { KitError } from "@kit/core";
import { traceCarrier } from "@kit/core/toolkit";
import type { AnyJobs } from "../job/types.js";
import type { LostLeases } from "../store/scripts/lost.js";
import type { TakenJob } from "../work/taken.js";
import type { FlowEdge, FlowJob } from "./plan.js";
import { parkJob } from "./waiting.js";

/**
 * A flow was not added, because a job in the queue already has one of the flow's ids. No job of the flow was stored. If you have repeated a
 * call with an unknown outcome, the first call may have added the flow.
 */
export class FlowTakenError extends KitError {
  /** @internal */
  static override readonly brand: string = "FlowTakenError";
  /** The id that is taken. */
  readonly id: string;

  constructor(id: string) {
    super("KIT_QUEUE_FLOW", `The flow was not added: a job already has the id ${JSON.stringify(id)}`);
    this.id = id;
  }
}

/**
 * Throw or return this error in a handler to add children to its job. The job waits for them, and runs again once all of them have ended,
 * without using an attempt. `readChildren()` then shows how they ended. The handler can do this several times. `readChildren()` returns the
 * children of all rounds, in the order in which they were added. Their results, and a checkpoint of `@kit/queue/progress`, stay until the
 * job has ended.
 *
 * All children are added and the job stops in one step. If the worker dies before that, no child exists, and the job runs again as after
 * any crash. The rules of `addFlow()` apply to the children, and to the job when one of them does not complete. If `job.signal` has aborted
 * because the worker closes, no child is added, and the job is handed back.
 *
 * If the children cannot be added, the attempt fails with the error that `addFlow()` would throw, such as a FlowTakenError.
 *
 * @example
 * const { children } = await readChildren(job);
 * if (children.length === 0) throw new WaitForChildren(parts.map((part) => ({ name: "render", data: { part } })));
 * return children.map(({ result }) => result);
 */
export class WaitForChildren<Jobs = AnyJobs> extends KitError {
  /** @internal */
  static override readonly brand: string = "WaitForChildren";
  declare readonly code: "KIT_JOB_WAITING";
  readonly #children: readonly (FlowJob<Jobs> | FlowEdge<Jobs>)[];
  /** The span of the handler. */
  readonly #span = traceCarrier()?.current();

  /** @throws {TypeError} `children` is not an array with at least one job. If a handler lets this error through, the attempt fails. */
  constructor(children: readonly (FlowJob<Jobs> | FlowEdge<Jobs>)[]) {
    super("KIT_JOB_WAITING", "The job waits for its children");
    if (!Array.isArray(children) || children.length === 0)
      throw new TypeError("Expected `children` to be an array with at least one job");
    this.#children = children;
  }

  /** @internal The worker calls it. */
  async park(job: TakenJob): Promise<LostLeases> {
    const { taken, ...reply } = await parkJob(job, this.#children, this.#span);
    if (taken !== undefined) throw new FlowTakenError(taken);
    return reply;
  }
}
