import { counted, randomText } from "../job/ids.js";
import type { QueueCommands } from "../store/commands.js";
import type { Room } from "./room.js";
import { slots, takeIdWidth, workerWidth } from "../job/take-id.js";

const mostNumbers = 36 ** (takeIdWidth - workerWidth);

/**
 * The takes of one worker that are not settled. The server keeps the last take of each slot. So a slot is used again only when the worker
 * has the reply, or the take was undone. If a reply is lost, the jobs of its take are handed back.
 */
export class Takes {
  readonly #commands: QueueCommands;
  readonly #room: Room;
  readonly #onRecovered: () => void;
  #worker = randomText(workerWidth);
  #count = 0;
  /** The ids of takes that are not settled, by slot. */
  readonly #used: (string | undefined)[] = Array.from({ length: slots }, () => undefined);
  readonly #lost = new Set<string>();
  #isRecovering = false;

  /** `onRecovered`: all lost takes are undone. */
  constructor(commands: QueueCommands, room: Room, onRecovered: () => void) {
    this.#commands = commands;
    this.#room = room;
    this.#onRecovered = onRecovered;
  }

  /** The id of the worker, with which its take ids start. */
  get worker(): string {
    return this.#worker;
  }

  /** Whether the server can record one more take. */
  get hasFree(): boolean {
    return this.#used.includes(undefined);
  }

  /** Whether a lost take still has to be undone. */
  get hasLost(): boolean {
    return this.#lost.size > 0;
  }

  /** The id of a new take, in a free slot. If no slot is free, an id for a call that takes nothing. */
  begin(): string {
    const slot = this.#used.indexOf(undefined);
    if (slot < 0) return this.#idOf(0);
    // In one slot numbers must grow, so that the server recognises a late repeat of an earlier take.
    if ((++this.#count + 1) * slots > mostNumbers) {
      this.#worker = randomText(workerWidth);
      this.#count = 1;
    }
    return (this.#used[slot] = this.#idOf(this.#count * slots + slot));
  }

  /** The call has ended. Its slot is free, unless the reply was lost. */
  settled(takeId: string): void {
    const slot = this.#used.indexOf(takeId);
    if (slot >= 0 && !this.#lost.has(takeId)) this.#used[slot] = undefined;
  }

  /** The reply of a call was lost, and the call may have taken jobs. Its id is kept until they have been handed back. */
  lose(takeId: string): void {
    // It may have been too large for the connection.
    this.#room.halve();
    this.#lost.add(takeId);
    if (!this.#isRecovering) void this.#recover();
  }

  async #recover(): Promise<void> {
    const { life, outage } = this.#commands;
    this.#isRecovering = true;
    for (let attempt = 1; this.#lost.size > 0 && !life.signal.aborted;)
      for (const takeId of this.#lost)
        try {
          await this.#commands.recover(takeId);
          this.#lost.delete(takeId);
          this.settled(takeId);
          outage.worked("undoing");
          attempt = 1;
        } catch (error) {
          await this.#commands.failed("undoing", "Undoing a take", error, ++attempt);
        }
    this.#isRecovering = false;
    this.#onRecovered();
  }

  #idOf(number: number): string {
    return this.#worker + counted(number, takeIdWidth - workerWidth);
  }
}
