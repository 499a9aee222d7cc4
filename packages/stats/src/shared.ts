import { Deadline, inTime, type ObjectLife } from "@kit/core/toolkit";
import { Commands } from "./commands.js";
import { SeriesIndex } from "./metric/series-index.js";
import type { StatsSettings } from "./options.js";
import type { SendBuffer } from "./send/buffer.js";
import { Sender, type SenderEvents } from "./send/sender.js";

/** Waits a little longer, since a call that ends at the same deadline gives a better error. */
const graceMs = 50;

export interface SharedEvents extends SenderEvents {
  /** A metric has no room for another series. */
  readonly overflow: (metric: string, maxSeries: number) => void;
}

/** The parts that all metrics of one statistics object share. */
export class Shared {
  readonly life: ObjectLife;
  readonly commands: Commands;
  readonly sender: Sender;
  readonly buffer: SendBuffer;
  readonly index: SeriesIndex;
  readonly events: SharedEvents;

  constructor(life: ObjectLife, settings: StatsSettings, events: SharedEvents) {
    this.life = life;
    this.events = events;
    this.commands = new Commands(life, settings.deadlineMs);
    this.sender = new Sender(life, this.commands, settings, events);
    this.buffer = this.sender.buffer;
    this.index = new SeriesIndex(this.commands, settings.flushMs, events.outage);
  }

  /**
   * Sends everything that waits now, and lists new series.
   *
   * @throws {KitError} some of it was not done by the deadline, and stays in the buffer.
   */
  async flush(): Promise<void> {
    const work = this.sender.flush().then(() => this.index.flush());
    const deadline = Deadline.in(this.commands.deadlineMs + graceMs);
    await inTime(work, { deadline }, () => this.commands.notSent("a part of the buffer"));
  }

  /** Sends the rest by the deadline, and drops what cannot be sent. */
  async close(deadline: Deadline): Promise<void> {
    await this.sender.close(deadline);
    await this.index.close(deadline);
  }
}
