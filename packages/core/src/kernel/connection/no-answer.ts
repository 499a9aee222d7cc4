import { KitUnavailableError } from "../base/errors.js";
import { addressOf, type RedisLike } from "./client.js";
import { endOf } from "./supervision.js";

/**
 * The error of a call when no server has answered by its deadline, or will not since the client is over. `undone`: a sentence
 * that says what was not done. `reason`: more about a missing answer, as ` (ECONNREFUSED)`. `end`: see `endOf()`.
 */
export const noAnswer = (
  client: RedisLike,
  undone: string,
  reason = "",
  cause?: Error,
  end = endOf(client),
): KitUnavailableError => {
  const address = addressOf(client);
  const what = end ? `The client for ${address} ${end}` : `No answer from Redis at ${address} in time${reason}`;
  // Only the owner of the client can change its end.
  return new KitUnavailableError(`${what}: ${undone}`, address, cause, !end);
};
