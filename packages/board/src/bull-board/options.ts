import type { QueueAdapterOptions } from "@bull-board/api/typings/app";
import type { QueueOptions } from "@kit/queue";

/** Options of `createBullBoardAdapter()`. All options except `jobs` belong to bull-board. */
export interface BullBoardOptions extends Partial<QueueAdapterOptions> {
  /**
   * The options of your queue objects. Jobs that visitors add get the same defaults. The data that they enter is checked by the same
   * `schemas` and `maxPayloadBytes`.
   *
   * @default the defaults of `createQueue()`
   */
  readonly jobs?: Omit<QueueOptions, "prefix"> | undefined;
}
