import { createHash } from "node:crypto";
import type { RedisLike } from "@kit/core";
import { custom, resolve, type Resolved, type RulesOf } from "@kit/core/toolkit";
import type { Backoff } from "../job/backoff.js";
import { blobOf, encodePayload, headOf, parseBlob, readPayload, type StoredJob } from "../job/payload.js";
import { assertFits } from "../job/schemas.js";
import { JobPayloadError } from "../job/errors.js";
import { encodedGroup } from "../job/names.js";
import type { QueueAddress } from "../job/keys.js";
import { addRules } from "../add/options.js";
import { type QueueOptions, queueRules } from "../store/options.js";
import { changed } from "./change.js";
import { edit, find } from "./scripts.js";

/** Changes to a job. Everything else about the job stays the same. */
export interface JobEdit {
  /** Its new data. */
  readonly data?: unknown;
  /** Its new priority. If it differs from the old one, the job goes after all other jobs of the new priority. */
  readonly priority?: number | undefined;
  /** How many attempts it has, including the past ones, before it is a dead letter. */
  readonly maxAttempts?: number | undefined;
  /** How long it waits after a failure before its next attempt. */
  readonly backoff?: Backoff | undefined;
  /** How long its handler can run, in milliseconds. */
  readonly timeoutMs?: number | undefined;
}

const editRules = {
  data: custom((_name, data: unknown) => data),
  priority: custom((name, value: number) => addRules.priority.check(name, value)),
  maxAttempts: addRules.maxAttempts,
  backoff: addRules.backoff,
  timeoutMs: addRules.timeoutMs,
} satisfies RulesOf<JobEdit>;

/** How new data is checked: the options that a queue object uses for the data of an `add`. */
type EditChecks = Pick<QueueOptions, "maxPayloadBytes" | "schemas">;

const checkRules = {
  maxPayloadBytes: queueRules.maxPayloadBytes,
  schemas: queueRules.schemas,
} satisfies RulesOf<EditChecks>;

/**
 * Changes the data and the options of a ready, delayed or dead job. An edited dead letter stays dead until it is redriven. Resolves with
 * `edited`, or with the reason why nothing was changed: `active`, `none` or `lost`, as for `removeJob()`. Concurrent edits of one job apply
 * one after the other.
 *
 * @param checks the `maxPayloadBytes` and `schemas` of the queue. Without them only the default maximum size is checked.
 * @throws {JobPayloadError} the data cannot be stored, is larger than `maxPayloadBytes`, or does not fit its schema. Or the stored job
 *   cannot be read.
 * @throws {KitUnavailableError | KitUnknownOutcomeError} as for every command. You can safely repeat the call.
 * @throws {TypeError | RangeError} an argument is invalid, or there is nothing to change.
 *
 * @example
 * await editJob(redis, { queue: "mail" }, id, { data: { to: "bob@example.org" }, maxAttempts: 10 });
 */
export const editJob = async (
  redis: RedisLike,
  address: QueueAddress,
  id: string,
  changes: JobEdit,
  checks: EditChecks = {},
): Promise<"edited" | "active" | "none" | "lost"> => {
  const wanted = resolve("changes", changes, editRules);
  if (Object.values(wanted).every((value) => value === undefined))
    throw new TypeError("Expected `changes` to have at least one change");
  const rules = resolve("checks", checks, checkRules);
  return await changed(redis, address, id, async (context, keys) => {
    for (;;) {
      const { state, blob } = await find.run(context, keys, { id });
      if (state === "none") return state;
      const digest = createHash("sha1").update(blob).digest("hex");
      const outcome = await edit.run(context, keys, { id, digest, blob: await editedBlob(blob, wanted, rules) });
      // Otherwise, another caller has edited it.
      if (outcome !== "changed") return outcome;
    }
  });
};

const editedBlob = async (
  blob: Buffer,
  { data, priority, maxAttempts, backoff, timeoutMs }: Resolved<typeof editRules>,
  { maxPayloadBytes, schemas }: Resolved<typeof checkRules>,
): Promise<string | Buffer> => {
  const { header, traceparent, start, addedAt } = readBlob(blob);
  const { name } = header;
  const policy = {
    maxAttempts: maxAttempts ?? header.maxAttempts,
    backoff: backoff ?? header.backoff,
    timeoutMs: timeoutMs ?? header.timeoutMs,
    expires: header.expires,
  };
  const head = (isBytes: boolean): string =>
    headOf(
      ...([name, policy, priority ?? header.priority, isBytes, header.replyTo, header.keyWords] as const),
      traceparent,
      header.group === undefined ? undefined : encodedGroup("group", header.group),
    );
  const stamp = addedAt.toString(36);
  if (data === undefined) return blobOf(stamp, head(header.isBytes), blob.subarray(start));
  const payload = encodePayload(name, data, maxPayloadBytes);
  const schema = schemas.get(name);
  if (schema) await assertFits(schema, name, readPayload(payload));
  return blobOf(stamp, head(typeof payload !== "string"), payload);
};

const readBlob = (blob: Buffer): StoredJob => {
  try {
    return parseBlob(blob);
  } catch (error) {
    throw new JobPayloadError("", "cannot be read", error);
  }
};
