import { KitError, type RedisArgument } from "../kernel/index.js";

/** The body of a response. */
export interface RestReply {
  readonly result?: unknown;
  readonly error?: unknown;
}

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/**
 * Converts an argument to text, because JSON cannot carry bytes.
 *
 * @throws {KitError} `KIT_UNSUPPORTED`: its bytes are not UTF-8.
 */
export const argumentText = (command: string, argument: RedisArgument): string => {
  if (!(argument instanceof Uint8Array)) return String(argument);
  try {
    return utf8.decode(argument);
  } catch {
    throw new KitError(
      "KIT_UNSUPPORTED",
      `${command} was not sent: over HTTP an argument must be UTF-8, and one is not`,
    );
  }
};

const named = (name: string, message: string, code?: string): Error =>
  Object.assign(new Error(message), { name, code });

/** The error for a request that the server did not execute. The executor recognizes its name. Messages show `reason`. */
export const notSent = (reason: string): Error => named("NotSentError", `The request was rejected: ${reason}`, reason);

/** The error for a request that may have been executed. */
export const lost = (reason: string): Error => named("Error", `The reply was lost: ${reason}`, reason);

/** The maximum length of an endpoint's text in messages. */
const maxErrorLength = 500;

/**
 * The server's error text, in the form that every client uses. Control and direction characters could rewrite a terminal, or forge a
 * line of a log.
 */
export const replyError = (text: string): Error =>
  named("ReplyError", text.slice(0, maxErrorLength).replace(/\p{C}/gu, "·"));

/**
 * A reply as it would arrive over a socket. In base64 every text is encoded except `OK`, which is not valid base64. Redis has no
 * booleans in this protocol: many scripts would read `true` as 1.
 *
 * @throws {Error} it is not of this protocol.
 */
export const readReply = (result: unknown, isBase64: boolean): unknown => {
  if (Array.isArray(result)) return result.map((one) => readReply(one, isBase64));
  if (typeof result === "string" && isBase64) return Buffer.from(result, result === "OK" ? "utf8" : "base64");
  if (result === null || typeof result === "string" || typeof result === "number") return result;
  const { error } = result as RestReply;
  if (typeof error !== "string") throw lost("the reply is not from a Redis REST API");
  return replyError(error);
};

/**
 * The text of a response.
 *
 * @throws {Error} it is longer than `maxBytes`.
 */
export const boundedText = async (response: Response, maxBytes: number): Promise<string> => {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of (response.body ?? []) as AsyncIterable<Uint8Array>) {
    bytes += chunk.length;
    if (bytes > maxBytes) throw lost(`the reply has more than maxReplyBytes, ${String(maxBytes)}`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString("utf8");
};
