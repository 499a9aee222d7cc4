import { KitError } from "@kit/core";

/**
 * A flow was not added, because a job in the queue already has one of its ids. No job of the flow was stored. If you repeat a call whose
 * outcome was unknown, the earlier call may have added the flow.
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
