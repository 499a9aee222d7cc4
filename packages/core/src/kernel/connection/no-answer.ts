import { KitUnavailableError } from "../base/errors.js";
import { addressOf, type RedisLike } from "./client.js";
import { endOf } from "./supervision.js";

/**
 * The error for a call when no server has answered by its deadline, or the client has ended.
 *
 * - `undone`: a sentence about what was not done.
 * - `reason`: details about the missing answer, such as ` (ECONNREFUSED)`.
 * - `end`: see `endOf()`.
 */
export const noAnswer = (
  client: RedisLike,
  undone: string,
  reason = "",
  cause?: Error,
  end = endOf(client),
): KitUnavailableError => {
  const address = addressOf(client);
  const what = end ? `The client for ${address} ${end}` : `Redis at ${address} did not answer in time${reason}`;
  // Only the owner of the client can change its end.
  return new KitUnavailableError(`${what}: ${undone}`, address, cause, !end);
};
