import { clientRules, required, resolve, type RulesOf, text, textOption } from "@kit/core/toolkit";
import { keyHead, type QueueAddress, type QueueKeys, queueKeys } from "../job/keys.js";

/** The checked address of a queue. */
export interface CheckedAddress {
  readonly queue: string;
  readonly prefix: string;
  /** The start of the queue's keys. */
  readonly head: string;
  readonly keys: QueueKeys;
}

const addressRules = {
  queue: required(text(512)),
  prefix: clientRules.prefix,
} satisfies RulesOf<QueueAddress>;

/**
 * @throws {TypeError | RangeError} `address` is not the address of a queue.
 * @throws {KitError} `KIT_NAME`: the name cannot be a key.
 */
export const checkedAddress = (address: QueueAddress): CheckedAddress => {
  const { queue, prefix } = resolve("address", address, addressRules, undefined, "address.");
  return { queue, prefix, head: keyHead(prefix, queue), keys: queueKeys(prefix, queue) };
};

/** @throws {TypeError | RangeError} `id` is not the id of a job. */
export const jobId = (id: string): string => textOption("id", id, 160);
