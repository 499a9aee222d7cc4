import type { ObjectLife } from "@kit/core/toolkit";
import { Commands } from "../store/commands.js";
import type { SendBuffer } from "./buffer.js";
import type { StatsSettings } from "./options.js";
import { Sender, type SenderEvents } from "./sender.js";
import { SeriesIndex } from "./series-index.js";

export interface SharedEvents extends SenderEvents {
  /** A metric has no room for another series. */
  readonly overflow: (metric: string, maxSeries: number) => void;
}

/** The parts that all metrics of one statistics object share. */
export interface Shared {
  readonly life: ObjectLife;
  readonly commands: Commands;
  readonly sender: Sender;
  readonly buffer: SendBuffer;
  readonly index: SeriesIndex;
  readonly events: SharedEvents;
}

export const sharedOf = (life: ObjectLife, settings: StatsSettings, events: SharedEvents): Shared => {
  const commands = new Commands(life, settings.deadlineMs);
  const sender = new Sender(life, commands, settings, events);
  const index = new SeriesIndex(commands, settings.flushMs, events.outage);
  return { life, commands, sender, buffer: sender.buffer, index, events };
};
