import { asKitError, backoffMs, type OutageReporter, pause } from "@kit/core/toolkit";
import type { QueueCommands } from "../commands.js";
import { TakeIdSource } from "./take-id.js";

/** The takes of one worker that are not settled. A take whose reply was lost is undone: its jobs are handed back. */
export class Takes {
  readonly #commands: QueueCommands;
  readonly #outage: OutageReporter;
  readonly #onRecovered: () => void;
  readonly #ids = new TakeIdSource();
  readonly #lost = new Set<string>();
  #isRecovering = false;
  #isClosed = false;

  /** `onRecovered`: all lost takes are undone. */
  constructor(commands: QueueCommands, outage: OutageReporter, onRecovered: () => void) {
    this.#commands = commands;
    this.#outage = outage;
    this.#onRecovered = onRecovered;
  }

  /** Whether the server can record one more take. */
  get hasFree(): boolean {
    return this.#ids.hasFree;
  }

  /** Whether a lost take is still to be undone. */
  get hasLost(): boolean {
    return this.#lost.size > 0;
  }

  /** The id of a new take; where none is free, an id for a call that takes nothing. */
  begin(): string {
    return this.#ids.take();
  }

  /** The call has ended. Unless its reply was lost, its slot is free. */
  settled(takeId: string): void {
    if (!this.#lost.has(takeId)) this.#ids.free(takeId);
  }

  /** The reply of a call was lost, and the call may have taken jobs. Its id is kept until they have been handed back. */
  lose(takeId: string): void {
    this.#lost.add(takeId);
    if (!this.#isRecovering) void this.#recover();
  }

  /** Undoes nothing more: leases of lost takes end by themselves. */
  close(): void {
    this.#isClosed = true;
  }

  async #recover(): Promise<void> {
    this.#isRecovering = true;
    for (let attempt = 1; this.#lost.size > 0 && !this.#isClosed;)
      for (const takeId of this.#lost)
        try {
          await this.#commands.recover(takeId);
          this.#lost.delete(takeId);
          this.#ids.free(takeId);
          this.#outage.worked("undoing");
          attempt = 1;
        } catch (error) {
          this.#outage.failed("undoing", asKitError(error, "Undoing a take"));
          await pause(backoffMs(++attempt, 50, 2_000));
        }
    this.#isRecovering = false;
    this.#onRecovered();
  }
}
