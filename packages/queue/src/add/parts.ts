import type { QueueCommands } from "../store/commands.js";
import type { QueueSettings } from "../store/options.js";
import type { AddDefaults } from "./options.js";
import type { Producer } from "./producer.js";

/** What entries of this package share with a queue. */
export interface QueueParts {
  readonly commands: QueueCommands;
  readonly settings: QueueSettings;
  readonly defaults: AddDefaults;
  /** Further producers, which close with the queue. */
  readonly producers: Pick<Producer, "close">[];
}

/** Each entry has a copy of this module. */
const key = Symbol.for("kit queue parts");

export const keepParts = (
  queue: object,
  commands: QueueCommands,
  settings: QueueSettings,
  defaults: AddDefaults,
): void => {
  const parts: QueueParts = { commands, settings, defaults, producers: [] };
  // This is a function, so that code that prints or walks through an object does not reach the client and its password.
  Object.defineProperty(queue, key, { value: () => parts });
};

/** @throws {TypeError} `queue` is not a queue. */
export const partsOf = (queue: object): QueueParts => {
  const parts = (Object(queue) as { [key]?: () => QueueParts })[key];
  if (!parts) throw new TypeError("Expected `queue` to come from createQueue()");
  return parts();
};
