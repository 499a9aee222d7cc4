import {
  addressOf,
  connectionsOf,
  destroySocket,
  isClusterClient,
  isReady,
  type NodeClient,
  type RedisArgument,
  type RedisLike,
} from "../connection/client.js";
import { Deadline, onAbort, Timed } from "../base/deadline.js";
import { answered } from "../connection/dedicated.js";
import {
  isBrokenOff,
  isPassing,
  isReplyError,
  KitError,
  KitUnavailableError,
  KitUnknownOutcomeError,
  reasonOf,
  replyOf,
  safeCause,
} from "../base/errors.js";
import { noAnswer } from "../connection/no-answer.js";
import { SendingOnce } from "../connection/once.js";
import { endOf, isOwned } from "../connection/supervision.js";
import { pause } from "../base/retry.js";
import { ClientWatch } from "./client-watch.js";
import { WriteBatching } from "./write-batching.js";

/** The facts that determine a command's outcome. */
export interface Call {
  /** The command in words, for messages: `lock.acquire of kit:lock:{x}:lease`. */
  readonly what: string;
  /** Whether it changes anything. Only then can its outcome be unknown. */
  readonly mutates: boolean;
  /** Whether it is idempotent. If so, it is sent again after a lost reply, within the deadline. */
  readonly idempotent: boolean;
  readonly op?: string | undefined;
  /** Whether its caller may repeat the call. Defaults to true if it is idempotent or has an `op`. */
  readonly isRepeatable?: boolean | undefined;
  readonly deadline: Deadline;
  readonly signal?: AbortSignal | undefined;
  /** Whether texts in the reply are Buffers, byte for byte, instead of UTF-8 strings. */
  readonly bytes?: boolean | undefined;
  /** Called each time before the command is sent. If it returns false, the command is no longer sent. */
  readonly isWanted?: (() => boolean) | undefined;
  /** For the executor: whether a try was sent whose reply is lost. A command that replaces this one inherits it. */
  maybeSent?: boolean;
}

/** A command that changes nothing. */
export const reading = (what: string, deadline: Deadline, signal?: AbortSignal): Call => ({
  what,
  mutates: false,
  idempotent: true,
  deadline,
  signal,
});

/**
 * A connection without a reply for this long, in milliseconds, is unresponsive. If a connection was silent for a shorter time, it
 * is pinged, and has this long to reply.
 */
const unresponsiveMs = 500;

// ioredis has no codes for these errors; both majors use the same words.
const neverSent =
  /Stream isn't writeable|Failed to refresh slots cache|None of startup nodes is available|Cluster isn't ready|in subscriber mode/;
/** A Cluster client reports only its last refusal. If it resends lost commands, it may have received other replies before. */
const onlyRefused = /^Too many Cluster redirections\. Last error: ReplyError: (.*)$/s;

/** The wait between two tries of a refused command, in milliseconds. A failover takes seconds, a slot move milliseconds. */
const firstPauseMs = 10;
const longestPauseMs = 100;

type Outcome = { readonly reply: unknown } | { readonly error: unknown } | "late";

/** A command that was passed to the client. It lands with its reply, at its deadline, or when its caller gives up. */
class Flight extends Timed {
  readonly outcome: Promise<Outcome>;
  readonly #landed: () => void;
  readonly #stopListening: (() => void) | undefined;
  #resolve!: (outcome: Outcome) => void;
  #isOver = false;

  /** `heard`: its reply has arrived, perhaps late. */
  constructor(replying: Promise<unknown>, { deadline, signal }: Call, landed: () => void, heard: () => void) {
    super(deadline, false);
    this.outcome = new Promise((resolve) => {
      this.#resolve = resolve;
    });
    this.#landed = landed;
    this.#stopListening = signal && onAbort(signal, () => this.#land({ error: signal.reason }));
    replying.then(
      (reply) => {
        heard();
        this.#land({ reply });
      },
      (error: unknown) => this.#land({ error }),
    );
  }

  #land(outcome: Outcome): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.forget();
    this.#stopListening?.();
    this.#landed();
    this.#resolve(outcome);
  }

  protected override late(): void {
    this.#land("late");
  }
}

/**
 * The only place where a command is passed to a client.
 *
 * It waits until the client is `ready`: in the client's offline queue a command could run long after its caller has given up. After
 * that there are three outcomes: a reply, an error reply, or no reply (unknown, if the command changes anything). The promise
 * always settles by the deadline.
 */
export class CommandExecutor extends ClientWatch {
  readonly #isShared: boolean;
  #inFlight = 0;
  #once: SendingOnce | undefined;
  readonly #writes = new WriteBatching();

  /**
   * `isShared`: many callers send single commands. Then some commands are sent together, and a refused command is sent again.
   * Otherwise one borrower sends a sequence, and has to decide what a refusal in it means.
   */
  constructor(client: RedisLike, isShared = false) {
    super(client);
    this.#isShared = isShared;
  }

  /**
   * Sends one command and resolves with its raw reply.
   *
   * @throws the client's own reply error, for the caller to translate (the caller has the keys).
   * @throws {KitUnavailableError} it was never sent, or it changes nothing.
   * @throws {KitUnknownOutcomeError} it was sent, it changes something, and its reply is lost.
   */
  async run(command: string, args: readonly RedisArgument[], call: Call): Promise<unknown> {
    let refusal: Error | undefined;
    let pauseMs = firstPauseMs;
    for (;;) {
      if (!isReady(this.client) && !(await this.untilReady(call))) throw this.#failure(call, refusal);
      if (call.isWanted?.() === false) throw this.#silence(call);
      const { stream } = this.client as NodeClient;
      const epoch = this.connectionEpoch;
      const sentAt = performance.now();
      const heard = stream?.bytesRead;
      call.signal?.throwIfAborted();
      if (this.#inFlight > 0 && this.#isShared) this.#writes.beforeCommand(stream);
      // ioredis throws for arguments that it cannot send: then nothing is under way.
      const send = (client: RedisLike): Promise<unknown> =>
        call.bytes ? callForBytes(client, command, args) : client.call(command, ...args);
      const once = this.#mayRepeat(call) ? (this.#once ??= SendingOnce.on(this.client))?.send(send) : undefined;
      const replying = once ? once.replying : send(this.client);
      this.#inFlight++;
      if (once) this.sentOnce.add(once.lose);
      const outcome = await new Flight(replying, call, this.#landed, this.heard).outcome;
      if (once) this.sentOnce.delete(once.lose);
      if (outcome === "late") {
        const isUnresponsive = stream?.bytesRead === heard && performance.now() - sentAt >= unresponsiveMs;
        this.isSilent ||= stream !== undefined && stream.bytesRead === heard;
        if (isOwned(this.client)) this.#replaceUnresponsive(isUnresponsive);
        call.maybeSent = true;
        throw this.#failure(call, refusal);
      }
      if ("reply" in outcome) return outcome.reply;
      const { error } = outcome;
      if (call.signal?.aborted && error === call.signal.reason) throw error;
      const reply = this.#replyIn(error);
      if (reply) {
        // A borrowed client itself sends commands again that were under way when its connection was lost. A Cluster client may
        // have done so unnoticed if its error has only the number of its tries.
        const isVague = this.connectionEpoch !== epoch || !isReplyError(error);
        call.maybeSent ||= isVague && !isOwned(this.client);
        const text = replyOf(reply.message);
        // It was not executed, and the caller sends the script's text next.
        if (text.startsWith("NOSCRIPT")) throw reply;
        const isPartial = isBrokenOff(text);
        call.maybeSent ||= isPartial;
        if (this.#isShared && text.startsWith("MOVED") && !isClusterClient(this.client))
          throw this.#failure(call, elsewhere(call, reply));
        const isFinal = !isPassing(text) || !this.#isShared || (call.maybeSent && !call.idempotent);
        // A try that starts at the deadline would only turn a clear answer into an unknown outcome.
        if (isFinal || call.deadline.remainingMs <= 2 * pauseMs) throw this.#failure(call, reply);
        refusal = reply;
      } else {
        const sent = !this.#wasNeverSent(error, epoch);
        call.maybeSent ||= sent;
        // This state ends only when its owner unsubscribes.
        if (isSubscribed(error)) throw this.#silence(call, error);
        this.lastError = error;
        if (sent) this.connectionEpoch++;
        if (sent && !call.idempotent) throw this.#silence(call);
      }
      // A client may be `ready` for a moment after its socket closed: do not spin on it.
      await pause(Math.min(pauseMs, Math.max(call.deadline.remainingMs, 0)), call.signal);
      if (call.deadline.remainingMs <= 0) throw this.#failure(call, refusal);
      if (reply) pauseMs = Math.min(2 * pauseMs, longestPauseMs);
    }
  }

  /**
   * Resolves once the client can accept a command.
   *
   * @throws {KitUnavailableError} it could not before the deadline, or has ended.
   */
  async ready(call: Call): Promise<void> {
    if (!isReady(this.client) && !(await this.untilReady(call))) throw this.#silence(call);
  }

  /**
   * The error for a reply that its reader refused with `error`. An endpoint over HTTP can reply with anything: then the reply counts as
   * lost. From a server the reply is the command's, so the reader's own error stays.
   */
  unreadable(call: Call, error: unknown): unknown {
    if (!this.client.isConnectionless || KitError.is(error)) return error;
    call.maybeSent = true;
    return this.#silence(call, error);
  }

  readonly #landed = (): void => {
    this.#inFlight--;
  };

  /** Whether the client might resend a command that must run only once. kit's clients and pool connections never do. */
  #mayRepeat({ mutates, idempotent }: Call): boolean {
    return mutates && !idempotent && this.#isShared && !isOwned(this.client);
  }

  /**
   * Whether the client gave up the command without sending it. The caller's Cluster client reports the same if it sent a first try
   * whose reply was lost. A single-server client has emitted that loss.
   */
  #wasNeverSent(error: unknown, epoch: number): boolean {
    const { client } = this;
    const mayBeSecond = isClusterClient(client) ? !isOwned(client) : this.connectionEpoch !== epoch;
    const text = String(error);
    return text.startsWith("NotSentError") || (!mayBeSecond && neverSent.test(text));
  }

  /** The server's reply error, even if a Cluster client reports only how often it tried. */
  #replyIn(error: unknown): Error | undefined {
    if (isReplyError(error)) return error;
    const last = error instanceof Error ? onlyRefused.exec(error.message)?.[1] : undefined;
    return last === undefined ? undefined : Object.assign(new Error(last), { name: "ReplyError" });
  }

  /** At the deadline the call rejects with the server's last refusal, unless an earlier try may have succeeded. */
  #failure(call: Call, refusal: Error | undefined): Error {
    return refusal && !(call.maybeSent && call.mutates) ? refusal : this.#silence(call, refusal);
  }

  #silence(call: Call, lastError: unknown = this.lastError): KitError {
    const address = addressOf(this.client);
    const cause = lastError === undefined ? undefined : safeCause(lastError);
    const { stall } = call.deadline;
    // A connection that is checked out is not replaced: its borrower takes another.
    const end = this.#isShared ? endOf(this.client) || (this.isEnded && "has ended") : "";
    const why = end ? `the client ${end}` : cause ? reasonOf(cause) : stall && "no reply";
    const reason = why && ` (${why}${stall})`;
    if (call.maybeSent && call.mutates)
      return new KitUnknownOutcomeError(
        `${call.what} was sent to ${address}, but the reply was lost${reason}: the change may or may not have been made`,
        call.op,
        cause,
        call.isRepeatable ?? (call.idempotent || call.op !== undefined),
      );
    // Why a client ended by itself, such as a refused password.
    const detail = cause && end !== "was closed" ? ` (${reasonOf(cause)}${stall})` : "";
    if (end || isSubscribed(cause))
      return new KitUnavailableError(
        `${call.what} was not sent: the client for ${address} ${end || "is subscribed"}${detail}`,
        address,
        cause,
        // Only the owner of the client can change that.
        false,
      );
    return noAnswer(this.client, `${call.what} was not done`, reason, cause, "");
  }

  #replaceUnresponsive(isUnresponsive: boolean): void {
    const connections = connectionsOf(this.client);
    // On a Cluster the node is not known here, and a short deadline proves nothing yet: probe every connection.
    if (connections.length === 1 && connections[0] && isUnresponsive) destroySocket(connections[0]);
    else for (const connection of connections) void probe(connection);
  }
}

/** The error for a slot on another node: only a Cluster client can follow a slot to its node. */
const elsewhere = ({ what }: Call, reply: Error): KitError =>
  new KitError("KIT_CLUSTER", `${what} failed: another Cluster node serves its keys. Use a Cluster client`, {
    cause: safeCause(reply),
  });

/** Whether the client uses RESP2, and so accepts no other commands while it is subscribed. */
const isSubscribed = (error: unknown): boolean => String(error).includes("in subscriber mode");

/** With ioredis this uses the command's own method: with automatic pipelining `callBuffer` sends another command. */
const callForBytes = (client: RedisLike, command: string, args: readonly RedisArgument[]): Promise<unknown> => {
  const methods = client as unknown as Record<string, (...args: readonly RedisArgument[]) => Promise<unknown>>;
  return methods["callForBytes"]?.(command, ...args) ?? methods[`${command.toLowerCase()}Buffer`]!(...args);
};

const probed = new WeakSet<NodeClient>();

/** Ends a connection that does not respond. Many late calls share one probe. */
const probe = async (connection: NodeClient): Promise<void> => {
  if (!isReady(connection) || probed.has(connection)) return;
  probed.add(connection);
  await answered(connection.call("PING"), () => destroySocket(connection), unresponsiveMs);
  probed.delete(connection);
};
