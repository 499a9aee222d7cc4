import { KitError, KitUnknownOutcomeError } from "@kit/core";
import { Batcher, type BatcherOptions } from "@kit/core/batching";
import { addressOf, noAnswer } from "@kit/core/toolkit";
import type { ChatCommands } from "../commands.js";
import type { ChatStore } from "../store.js";

/** The most items, and bytes of bodies, in one call of a script. */
const batchItems = 100;
const batchBytes = 1_048_576;

/** How one batch is sent, within its deadline in milliseconds. */
interface Sending<Item, Result> {
  readonly sizeOf: BatcherOptions<Item, Result>["sizeOf"];
  send(commands: ChatCommands, items: readonly Item[], deadlineMs: number): Promise<readonly (Result | Error)[]>;
}

/** Makes a batcher of sends or acknowledgements. `what` is the call of the user, for errors. */
export const batcherFor = <Item extends object, Result>(
  store: ChatStore,
  what: string,
  { send, sizeOf }: Sending<Item, Result>,
): Batcher<Item, Result> => {
  const { client } = store.context;
  const { deadlineMs, maxPending } = store.settings;
  const address = addressOf(client);
  // A batch may first wait for the number of shards. False: its caller already has an error that nothing was sent.
  const sent = new WeakMap<Item, boolean>();
  return new Batcher<Item, Result>({
    deadlineMs,
    maxPending,
    maxItems: batchItems,
    maxBytes: batchBytes,
    delayMs: 0,
    owner: "The chat",
    send: async (items, deadline) => {
      const commands = await store.open();
      if (items.some((item) => sent.has(item))) throw noAnswer(client, `${what} was not done`);
      for (const item of items) sent.set(item, true);
      return await send(commands, items, Math.max(1, deadline.remainingMs));
    },
    sizeOf,
    late: (item) => {
      const lost = `${what} was sent to ${address}, but the reply was lost: the change may or may not have been made`;
      if (sent.get(item)) return new KitUnknownOutcomeError(lost, undefined, undefined, true);
      sent.set(item, false);
      return noAnswer(client, `${what} was not done`);
    },
    full: () =>
      new KitError(
        "KIT_CHAT_BUSY",
        `${what} was not sent: ${String(maxPending)} calls already wait. Try again later, or raise maxPending`,
        {
          retryable: true,
        },
      ),
  });
};
