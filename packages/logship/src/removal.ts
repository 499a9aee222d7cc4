import { LogshipError } from "./errors.js";
import { freeChunks } from "./freeing.js";
import type { Hub } from "./hub.js";
import * as scripts from "./scripts/index.js";

/** HGETALL replies a list or an object, as the client maps replies. */
const pairs = (reply: unknown): Map<string, string> => {
  if (!Array.isArray(reply)) return new Map(Object.entries(reply as Record<string, string>));
  const flat = reply.map(String);
  return new Map(Array.from({ length: flat.length / 2 }, (_, index) => [flat[2 * index]!, flat[2 * index + 1]!]));
};

/** The fields of a hash. */
export const hashOf = async (hub: Hub, key: string): Promise<Map<string, string>> =>
  pairs(await hub.read("HGETALL", [key]));

const recorded = "result ";

/** The keys with results that a job or a channel has recorded in its hash. */
const resultKeysOf = async (hub: Hub, owner: string): Promise<string[]> =>
  [...(await hashOf(hub, owner)).keys()].flatMap((field) =>
    field.startsWith(recorded) ? [field.slice(recorded.length)] : [],
  );

/** Deletes a job with its results. */
export const deleteJob = async (hub: Hub): Promise<void> => {
  const { context, keys, deadlineMs } = hub;
  for (;;) {
    const targets = await resultKeysOf(hub, keys.job);
    const outcome = await scripts.forget.run(context, { ...keys, targets }, {}, { deadlineMs });
    if (outcome === "deleted") return;
    if (outcome === "busy")
      throw new LogshipError("KIT_LOGSHIP_BUSY", `Job ${JSON.stringify(hub.name)} has a worker: end its runs first`);
  }
};

/** Deletes a channel with its results. A crash in between leaves it closed, and another call goes on. */
export const deleteChannel = async (hub: Hub): Promise<void> => {
  const { context, keys, deadlineMs } = hub;
  const discard = (isLast: boolean, targets: readonly string[]): Promise<string[]> =>
    scripts.discard.run(context, { ...keys, targets }, { isLast: isLast ? 1 : 0, events: keys.events }, { deadlineMs });
  for (let parts = await discard(false, []); parts.length > 0; parts = await discard(false, []))
    await freeChunks(hub, parts);
  // No commit can add a result any more.
  await discard(true, await resultKeysOf(hub, keys.channel));
};

/** Takes a consumer off a channel, if it gave no sign for `silentMs` (0: in any case). Resolves with whether it is off. */
export const dropConsumer = async (hub: Hub, consumer: string, silentMs: number): Promise<boolean> => {
  const { context, keys, deadlineMs } = hub;
  for (let after = 0; after >= 0;) {
    const dropped = await scripts.drop.run(context, keys, { consumer, silentMs, after }, { deadlineMs });
    if (!dropped) return false;
    await freeChunks(hub, dropped.parts);
    ({ after } = dropped);
  }
  return true;
};

/** Takes off all consumers that gave no sign for `silentMs`; resolves with their names. */
export const dropSilent = async (hub: Hub, silentMs: number): Promise<string[]> => {
  const dropped: string[] = [];
  for (const consumer of (await hashOf(hub, hub.keys.consumers)).keys())
    if (await dropConsumer(hub, consumer, silentMs)) dropped.push(decodeURIComponent(consumer));
  return dropped;
};
