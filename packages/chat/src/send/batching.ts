import { KitError, KitUnknownOutcomeError } from "@kit/core";
import { Batcher, type BatcherOptions } from "@kit/core/batching";
import { addressOf, noAnswer } from "@kit/core/toolkit";
import type { ChatStore } from "../store.js";

/** The most items, and bytes of bodies, in one call of a script. */
const batchItems = 100;
const batchBytes = 1_048_576;

/** Makes a batcher of sends or acknowledgements. `what` is the call of the user, for errors. */
export const batcherFor = <Item, Result>(
  { settings, context: { client } }: ChatStore,
  what: string,
  { send, sizeOf }: Pick<BatcherOptions<Item, Result>, "send" | "sizeOf">,
): Batcher<Item, Result> => {
  const { deadlineMs, maxPending } = settings;
  const address = addressOf(client);
  return new Batcher<Item, Result>({
    deadlineMs,
    maxPending,
    maxItems: batchItems,
    maxBytes: batchBytes,
    delayMs: 0,
    owner: "The chat",
    send,
    sizeOf,
    late: (_item, wasSent) => {
      const lost = `${what} was sent to ${address}, but the reply was lost: the change may or may not have been made`;
      return wasSent
        ? new KitUnknownOutcomeError(lost, undefined, undefined, true)
        : noAnswer(client, `${what} was not done`);
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
