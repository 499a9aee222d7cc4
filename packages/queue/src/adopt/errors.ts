import { KitError } from "@kit/core";

/** The BullMQ queue cannot be adopted now: it is paused and your kit queue is not, or another queue is adopting it. Nothing was changed. */
export class AdoptionError extends KitError {
  /** @internal */
  static override readonly brand: string = "AdoptionError";
  /** The name of the BullMQ queue. */
  readonly from: string;

  constructor(from: string, reason: string) {
    super("KIT_QUEUE_ADOPTION", `The BullMQ queue ${JSON.stringify(from)} ${reason}`);
    this.from = from;
  }
}
