import { EventEmitter } from "node:events";
import { KitError, reconnectMs, type RedisArgument, type RedisLike, resolve } from "../kernel/index.js";
import { argumentText, boundedText, lost, notSent, readReply, replyError, type RestReply } from "./protocol.js";
import { type HttpClientOptions, httpRules, type HttpSettings } from "./options.js";

/** The maximum pause, in milliseconds, even if an endpoint requests a longer one. */
const longestPauseMs = 60_000;

/** Error codes of `fetch` that mean there was no connection, so nothing was sent. */
const neverConnected = /^(ECONNREFUSED|ENOTFOUND|EAI_AGAIN|UND_ERR_CONNECT_TIMEOUT)$/;

/** Why `fetch` failed: a code, or the name of the error. The error's text may be anything, including a secret. */
const reasonOf = (error: unknown): string => {
  const { name, code, cause } = error as { name?: unknown; code?: unknown; cause?: { code?: unknown } | undefined };
  return [cause?.code, code, name].find((one) => typeof one === "string") ?? "the request failed";
};

/** How long the endpoint wants no requests, from its headers: seconds, or a date on the endpoint's clock. */
const pauseOf = ({ headers }: Response, usualMs: number): number => {
  const wanted = headers.get("retry-after") ?? "";
  const ms = /^\d+$/.test(wanted) ? Number(wanted) * 1_000 : Date.parse(wanted) - Date.parse(headers.get("date") ?? "");
  return ms > 0 ? Math.min(ms, longestPauseMs) : usualMs;
};

/** A client whose commands are HTTP requests. During a pause its status is `reconnecting`, and the executor sends nothing. */
class HttpClient extends EventEmitter implements RedisLike {
  status: "ready" | "reconnecting" | "end" = "ready";
  readonly isConnectionless = true;
  /** The endpoint, for messages. */
  readonly options: { readonly path: string };
  readonly #settings: HttpSettings;
  readonly #headers: Readonly<Record<string, string>>;
  #failures = 0;
  #pausedUntil = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(settings: HttpSettings) {
    super();
    this.setMaxListeners(0);
    this.#settings = settings;
    this.#headers = { "content-type": "application/json", authorization: `Bearer ${settings.token}` };
    this.options = { path: new URL(settings.url).origin };
  }

  call(command: string, ...args: RedisArgument[]): Promise<unknown> {
    return this.#send(command, args, false);
  }

  callForBytes(command: string, ...args: RedisArgument[]): Promise<unknown> {
    return this.#send(command, args, true);
  }

  duplicate(): never {
    const missing = "use a client with connections for workers, listeners, transactions, durable writes and `isolate`";
    throw new KitError("KIT_UNSUPPORTED", `The client of ${this.options.path} works over HTTP: ${missing}`);
  }

  connect(): Promise<void> {
    if (this.status === "end") this.#begin();
    return Promise.resolve();
  }

  disconnect(): void {
    clearTimeout(this.#timer);
    this.status = "end";
    this.emit("end");
  }

  /** Throws before anything is sent, or returns a promise. */
  #send(command: string, args: readonly RedisArgument[], wantsBytes: boolean): Promise<unknown> {
    return this.#post(JSON.stringify([command, ...args.map((arg) => argumentText(command, arg))]), wantsBytes);
  }

  async #post(body: string, wantsBytes: boolean): Promise<unknown> {
    const { url, timeoutMs, maxReplyBytes, fetch: send = globalThis.fetch } = this.#settings;
    if (this.status === "end") throw notSent("the client has ended");
    const headers = wantsBytes ? { ...this.#headers, "upstash-encoding": "base64" } : this.#headers;
    const signal = AbortSignal.timeout(timeoutMs);
    let response: Response;
    let text: string;
    try {
      // Next.js would keep the reply, and not send the same command again. Node's types leave this option out.
      const uncached = { cache: "no-store" } as RequestInit;
      response = await send(url, { method: "POST", headers, body, signal, redirect: "manual", ...uncached });
      text = await boundedText(response, maxReplyBytes);
    } catch (error) {
      const reason = reasonOf(error);
      throw this.#failed(neverConnected.test(reason) ? notSent(reason) : lost(reason));
    }
    return this.#judge(response, text, wantsBytes);
  }

  #judge(response: Response, text: string, wantsBytes: boolean): unknown {
    const { status } = response;
    if (status === 429) throw this.#failed(notSent("HTTP 429"), pauseOf(response, 1_000));
    if (status === 408 || status >= 500) throw this.#failed(lost(`HTTP ${String(status)}`), pauseOf(response, 0));
    const reply = parsed(text);
    if (typeof reply?.error !== "string" && response.ok && reply?.result === undefined)
      throw this.#failed(lost("the reply is not from a Redis REST API"));
    this.#failures = 0;
    if (status === 401) throw replyError("WRONGPASS the endpoint rejected the token");
    if (typeof reply?.error === "string") throw replyError(reply.error);
    if (!response.ok) throw replyError(`ERR the endpoint replied with HTTP ${String(status)}`);
    return readReply(reply?.result, wantsBytes);
  }

  /** Starts a pause: as long as the endpoint wants, or longer with each consecutive failure. */
  #failed(error: Error, wantedMs = 0): Error {
    const ms = wantedMs || reconnectMs(++this.#failures);
    const until = performance.now() + ms;
    if (this.status === "end" || until <= this.#pausedUntil) return error;
    this.#pausedUntil = until;
    this.status = "reconnecting";
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#begin(), ms);
    this.#timer.unref();
    return error;
  }

  #begin(): void {
    this.status = "ready";
    this.emit("ready");
  }
}

const parsed = (text: string): RestReply | undefined => {
  try {
    return JSON.parse(text) as RestReply | undefined;
  } catch {
    return undefined;
  }
};

/**
 * A client for functions that cannot open sockets. Each command is one HTTP request in the REST protocol documented by Upstash.
 *
 * Every package accepts this client. You can add jobs, count and read. kit polls instead of waiting for pushes. Features that need
 * a dedicated connection reject or throw `KIT_UNSUPPORTED`: workers, event readers, `optimistic`, `durable`, `replicaReads` and
 * `isolate`. Calls with arguments that are not UTF-8 also reject, before anything is sent.
 *
 * If the reply to a request is lost, kit sends the request again if that is safe. Otherwise its outcome is unknown
 * (`KitUnknownOutcomeError`). After a failed request (network, HTTP 408, 429 or 5xx), the client sends nothing for a while. It
 * waits for the time in `Retry-After`, up to one minute. Without that header it waits 1 s after HTTP 429, and 20 ms to 2 s after
 * other failures. Calls wait for the pause to end, until their deadline.
 *
 * HTTP does not guarantee an order between requests. You don't need to close the client.
 *
 * @throws {TypeError | RangeError} an option is invalid. The message never contains the token or the address.
 *
 * @example
 * const redis = httpClient({ url: process.env["UPSTASH_REDIS_REST_URL"]!, token: process.env["UPSTASH_REDIS_REST_TOKEN"]! });
 * const queue = createQueue(redis, "mail");
 */
export const httpClient = (options: HttpClientOptions): RedisLike =>
  new HttpClient(resolve("options", options, httpRules));
