import { KitError, KitKeyTypeError, type RedisLike, type Script } from "@kit/core";
import {
  backoffMs,
  type ClientContext,
  type clientRules,
  type CloseOptions,
  Deadline,
  isReplyError,
  ObjectLife,
  pause,
  reading,
  replyOf,
  type Resolved,
  serverError,
  settled,
} from "@kit/core/toolkit";
import { type LogshipKeys, logshipKeys } from "./keys.js";
import { type LinkedSignal, linkedSignal } from "./signals.js";

/** A message on the events channel. */
export type Hint = "data" | "space" | "file";

/** Without a message the state is read again after `lookEveryMs`, or after `pollMs` if the ACL forbids subscribing. */
const lookEveryMs = 10_000;
const pollMs = 250;

/** The common part of jobs, shippers and receivers: keys, commands, the hints that scripts publish, and the running calls. */
export class LogConnection {
  /** Receives each error after which an operation is retried. */
  onError: (error: KitError) => void = () => undefined;
  /** Called with a key of this name for each command. */
  onUse: (key: string) => void = () => undefined;
  readonly name: string;
  readonly life: ObjectLife;
  readonly context: ClientContext;
  readonly keys: LogshipKeys;
  readonly deadlineMs: number;
  readonly #counts: Record<Hint, number> = { data: 0, space: 0, file: 0 };
  readonly #waiting = new Set<() => void>();
  #stopListening: (() => void) | undefined;
  #isForbidden = false;

  /** `what` is the owner's name in errors. */
  constructor(redis: RedisLike, name: string, settings: Resolved<typeof clientRules>, what: string) {
    this.name = name;
    this.deadlineMs = settings.deadlineMs;
    this.keys = logshipKeys(settings.prefix, name);
    this.life = new ObjectLife(redis, settings, what);
    this.context = this.life.context;
    // Waiting calls read the state again: a failover may have changed it, or the client has ended.
    const stopDrops = this.context.executor.onDrop(() => this.#wakeAll());
    this.life.onClosed(stopDrops, () => this.#stopListening?.());
  }

  /**
   * Returns a signal that aborts with the caller's signal, and with KitClosedError at `close()`. Call `unlink` afterwards. Throws after
   * `close()`.
   */
  link(signal: AbortSignal | undefined): LinkedSignal {
    this.life.assertOpen();
    return linkedSignal([signal, this.life.signal]);
  }

  /** Runs a call that `close()` aborts and waits for. */
  async task<T>(
    name: string,
    facts: () => object,
    signal: AbortSignal | undefined,
    run: (link: LinkedSignal) => Promise<T>,
  ): Promise<T> {
    const link = this.link(signal);
    try {
      return await this.life.call(name, facts, () => run(link));
    } finally {
      link.unlink();
    }
  }

  /** The number of hints of a kind so far. Read it before reading the state. */
  mark(hint: Hint): number {
    return this.#counts[hint];
  }

  /** Resolves when a hint has arrived since `mark`, when hints may have been lost, or after `mostMs`. Sends no commands. */
  async until(hint: Hint, mark: number, signal: AbortSignal, mostMs: number = lookEveryMs): Promise<void> {
    signal.throwIfAborted();
    this.#listen();
    const timeMs = Math.max(1, Math.min(mostMs, this.#isForbidden ? pollMs : lookEveryMs));
    await settled<void>(
      { deadline: Deadline.in(timeMs), signal },
      ({ resolve }) => resolve(),
      ({ resolve }) => {
        const look = (): void => {
          if (this.#counts[hint] !== mark) resolve();
        };
        this.#waiting.add(look);
        look();
        if (this.context.executor.isEnded) resolve();
        return () => void this.#waiting.delete(look);
      },
    );
  }

  /** Runs a script, on the keys of this name unless you pass others. */
  async run<Keys extends readonly string[], Args extends readonly string[], Reply>(
    script: Script<Keys, Args, Reply>,
    args: Parameters<typeof script.run>[2],
    call: {
      readonly keys?: Parameters<typeof script.run>[1];
      readonly signal?: AbortSignal;
      readonly op?: string;
    } = {},
  ): Promise<Reply> {
    const { keys = this.keys as never, signal, op } = call;
    this.onUse(this.keys.channel);
    return await script.run(this.context, keys, args, { deadlineMs: this.deadlineMs, signal, op });
  }

  /** The fields of a hash. */
  async hash(key: string): Promise<Map<string, string>> {
    const reply = await this.read("HGETALL", [key]);
    // A list or an object, as the client maps replies.
    if (!Array.isArray(reply)) return new Map(Object.entries(reply as Record<string, string>));
    const flat = reply.map(String);
    return new Map(Array.from({ length: flat.length / 2 }, (_, index) => [flat[2 * index]!, flat[2 * index + 1]!]));
  }

  /** Some fields of a hash. */
  async fields(
    key: "channel" | "files" | "progress" | "sources",
    fields: readonly string[],
    signal: AbortSignal,
  ): Promise<(string | null)[]> {
    // A command has at least one field, which need not be there.
    const reply = (await this.read("HMGET", [this.keys[key], "", ...fields], { signal })) as (string | null)[];
    return reply.slice(1);
  }

  /** Runs one command that only reads. With `bytes`, texts in its reply are Buffers. */
  async read(
    command: string,
    args: readonly string[],
    { signal, bytes = false }: { signal?: AbortSignal | undefined; bytes?: boolean } = {},
  ): Promise<unknown> {
    this.onUse(this.keys.channel);
    const what = `${command} of ${args[0] ?? ""}`;
    const call = { ...reading(what, Deadline.in(this.deadlineMs), signal), bytes };
    try {
      return await this.context.executor.run(command, args, call);
    } catch (error) {
      if (!isReplyError(error)) throw error;
      const known = serverError(error, what);
      throw replyOf(error.message).startsWith("WRONGTYPE")
        ? new KitKeyTypeError(
            `${what} failed: the key holds another type of data`,
            args[0],
            undefined,
            known.cause as Error,
          )
        : known;
    }
  }

  /** Calls `attempt` until it resolves, through outages and failovers, with growing pauses. Throws errors that a retry cannot fix. */
  async persist<T>(attempt: () => Promise<T>, signal: AbortSignal): Promise<T> {
    for (let number = 2; ; number++)
      try {
        signal.throwIfAborted();
        return await attempt();
      } catch (error) {
        if (!KitError.is(error) || !error.retryable || signal.aborted) throw error;
        this.onError(error);
        await pause(Math.max(10, backoffMs(number, 20, 2_000)), signal);
      }
  }

  /** Aborts the running calls, waits for them for up to `timeoutMs`, and detaches from the client. The first call's options count. */
  close(options: CloseOptions = {}): Promise<void> {
    return this.life.close(options, async (deadline) => {
      this.life.cancel();
      await this.life.untilIdle(deadline);
    });
  }

  #listen(): void {
    this.#stopListening ??= this.context.inbox.listen(this.keys.events, {
      message: (text) => this.#note(text as Hint),
      state: (state) => {
        this.#isForbidden = state === "forbidden";
        this.#wakeAll();
      },
    });
  }

  #wakeAll(): void {
    for (const hint of ["data", "space", "file"] as const) this.#note(hint);
  }

  #note(hint: Hint): void {
    if (!(hint in this.#counts)) return;
    this.#counts[hint]++;
    for (const look of [...this.#waiting]) look();
  }
}
