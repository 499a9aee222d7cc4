import { KitError, KitUnknownOutcomeError, type RedisLike, type Script } from "@kit/core";
import { durable } from "@kit/core/durable";
import {
  asKitError,
  backoffMs,
  type ClientContext,
  type Deadline,
  evictionPolicy,
  ObjectLife,
  OutageReporter,
  pause,
} from "@kit/core/toolkit";
import { QueueEvictionError } from "../job/errors.js";
import {
  answeredKey,
  groupKeys,
  keyHead,
  onceKeys,
  type QueueKeys,
  queueKeys,
  repliesKey,
  takenKey,
} from "../job/keys.js";
import { planned } from "../job/words.js";
import type { QueueSettings } from "./options.js";
import { wallMs } from "./wall.js";
import * as scripts from "./scripts/index.js";

/** The arguments of one step, without the jobs that it ends. */
export interface StepRequest {
  readonly takeId: string;
  readonly count: number;
  /** How many of these jobs the step takes even if other workers are idle. */
  readonly sure: number;
  /** How many bytes of jobs it takes; see `step.lua`. */
  readonly room: string;
  readonly leaseMs: number;
  readonly flags: string;
  readonly bounds: string;
  readonly maintenance: string;
}

/** Events of background work, for which no caller waits. */
export interface CommandEvents {
  readonly error: (error: KitError) => void;
  /** The server can evict keys under this policy. */
  readonly evictable: (policy: string) => void;
}

/** A job that `step.lua` ends individually: it failed, was called, or has a caller's id. */
export type EndedJob = Parameters<typeof scripts.step.run>[2]["others"][number];

/** The jobs that a step ends. */
export interface Endings {
  /** Members of `leases` whose jobs are done, one per line. */
  readonly done?: string;
  readonly others?: readonly EndedJob[];
  readonly callers?: readonly string[];
}

/** The arguments of a script that adds jobs. */
interface AddArgs {
  readonly producer: string;
  readonly sequence: number;
  readonly isNew: string;
  readonly plan: string;
  readonly blobs: readonly (string | Buffer)[];
}

interface OwnScript<Args, Reply> {
  run(redis: ClientContext, keys: QueueKeys, args: Args, options: { readonly deadlineMs: number }): Promise<Reply>;
}

type AddKeys = QueueKeys & { readonly others: readonly string[] };
type StepKeys = QueueKeys & { readonly taken: string; readonly replies: readonly string[] };

/** The scripts of one queue on one client. */
export class QueueCommands {
  /** The life of the queue or worker that the commands belong to. */
  readonly life: ObjectLife;
  readonly context: ClientContext;
  /** `others`: of an add that has none. `taken` and `replies` are of the last step. */
  readonly keys: AddKeys & StepKeys;
  /** The background operations of a worker report here. An outage emits one error at its start, and one at its end. */
  readonly outage: OutageReporter;
  readonly #name: string;
  /** The beginning of every key. */
  readonly head: string;
  readonly settings: QueueSettings;
  readonly #events: CommandEvents;
  /** Increases when another server may have the queue. `#checked` is its value at the last check. */
  #server = 1;
  #checked = 0;
  /** The server was checked, and no new check is running. */
  #isOpen = false;
  /** Server time minus our wall clock, in milliseconds, once the server was checked. An upper estimate. */
  offsetMs = 0;
  /** Without those for groups until the queue has its first group. */
  #scripts = scripts.plain;
  /** The lower bound of the offset. */
  #leastOffsetMs = Infinity;
  /** The eviction policy that was last emitted. */
  #policy: string | undefined;

  /** `what` names the owner in errors. `isolate`: uses a dedicated connection, whatever the settings are. */
  constructor(
    redis: RedisLike,
    name: string,
    settings: QueueSettings,
    events: CommandEvents,
    what: string,
    isolate: boolean = settings.isolate,
  ) {
    const { prefix } = settings;
    this.keys = { ...queueKeys(prefix, name), others: [], taken: "", replies: [] };
    this.life = new ObjectLife(redis, { prefix, isolate }, what);
    this.context = this.life.context;
    this.#name = name;
    this.head = keyHead(prefix, name);
    this.settings = settings;
    this.#events = events;
    this.outage = new OutageReporter(events.error);
    const { executor } = this.context;
    const reopen = (): void => void this.#reopen();
    this.life.onClosed(executor.onReady(reopen), executor.onDrop(reopen));
  }

  /** The maximum time of one command. */
  get deadlineMs(): number {
    return this.settings.deadlineMs;
  }

  /** The clock of the server that has the queue. */
  get clock(): ReturnType<ClientContext["clockOf"]> {
    return this.context.clockOf(this.keys.leases);
  }

  /** Whether that clock has a bound on this connection. */
  get isClockKnown(): boolean {
    return this.clock.earliest(0) !== undefined;
  }

  /**
   * Checks that the stored layout is not newer than ours, and that the server will not evict jobs. Runs before the first command and again
   * after each lost connection. Until a check has succeeded, each caller makes one, within its own deadline.
   *
   * @throws {KitError} `KIT_LAYOUT`. {@link QueueEvictionError}. Every error of a command.
   */
  async open(deadlineMs: number = this.settings.deadlineMs): Promise<void> {
    if (this.isChecked) return;
    const server = this.#server;
    await this.#open(deadlineMs);
    this.#checked = server;
  }

  /** Whether `open()` has nothing to check. */
  get isChecked(): boolean {
    return this.#checked === this.#server;
  }

  /** Runs a script that uses only the queue's fixed keys. */
  run<Args, Reply>(
    script: OwnScript<Args, Reply>,
    args: Args,
    deadlineMs: number = this.settings.deadlineMs,
  ): Promise<Reply> {
    return script.run(this.context, this.keys, args, { deadlineMs });
  }

  /**
   * Adds jobs. Also rejects with KitUnknownOutcomeError if the jobs are stored, but not replicated as `durable` requires. `answeredTo`: the
   * producers whose answers are stored or read. Empty without an `addOnce` or a key.
   */
  async add(args: AddArgs, answeredTo: readonly string[], deadline: Deadline): Promise<scripts.AddReply> {
    const keys = /\t(?:ifNew|answer|group)/.test(args.plan) ? this.#keysFor(args.plan, answeredTo) : this.keys;
    const { add } = args.plan.includes(planned("group")) ? await this.#withGroups() : scripts.plain;
    return await this.store(add, keys, args, deadline);
  }

  /** Runs a script that adds jobs, see `add`. */
  async store<Keys extends readonly string[], Args extends readonly string[], Reply extends scripts.AddReply>(
    script: Script<Keys, Args, Reply>,
    keys: Parameters<typeof script.run>[1],
    args: Parameters<typeof script.run>[2],
    deadline: Deadline,
  ): Promise<Reply> {
    const deadlineMs = Math.max(1, Math.ceil(deadline.remainingMs));
    const { durable: replication } = this.settings;
    if (!replication) return this.#added(await script.run(this.context, keys, args, { deadlineMs }));
    const durability = { ...replication, key: this.keys.jobs, deadlineMs };
    const { value, outcome, why } = await durable(this.context, durability, (scope) => scope.run(script, keys, args));
    if (outcome !== "safe")
      throw new KitUnknownOutcomeError(`The jobs were added, but are not durable: ${why ?? ""}`, undefined);
    return this.#added(value);
  }

  /** Stores the layout again if the server lost it together with the jobs. */
  #added<Reply extends scripts.AddReply>(reply: Reply): Reply {
    if (reply.isLost) void this.#reopen();
    return reply;
  }

  /**
   * Ends jobs and takes others. `callers` are the queue objects that receive outcomes. `executor`: a connection to use instead of the
   * shared one.
   */
  step(
    request: StepRequest,
    { done = "", others = [], callers = [] }: Endings = {},
    {
      deadlineMs = this.settings.deadlineMs,
      executor,
    }: { deadlineMs?: number; executor?: ClientContext["executor"] } = {},
  ): Promise<scripts.StepReply> {
    return this.move(({ step }) => {
      // A call reads its keys before it waits, so all steps share them. A copy of all keys takes 4 µs, a tenth of a step.
      const replies = callers.map((caller) => repliesKey(this.head, caller));
      const keys = Object.assign(this.keys, { taken: takenKey(this.head, request.takeId), replies });
      return step.run(executor ?? this.context, keys, { ...request, done, others }, { deadlineMs });
    });
  }

  /** Reads outcomes for `caller`, and deletes the ones it has received. */
  outcomes(caller: string, received: readonly string[], wanted: readonly string[]): Promise<readonly Buffer[]> {
    const { deadlineMs } = this.settings;
    const keys = { ...this.keys, replies: repliesKey(this.head, caller) };
    return scripts.outcomes.run(
      this.context,
      keys,
      { received: received.join("\n"), wanted: wanted.join("\n") },
      { deadlineMs },
    );
  }

  /** Undoes a take whose reply was lost. Resolves with the number of returned jobs. */
  recover(takeId: string): Promise<number> {
    const { deadlineMs } = this.settings;
    const keys = { ...this.keys, taken: takenKey(this.head, takeId) };
    return this.move(({ recover }) => recover.run(this.context, keys, { takeId }, { deadlineMs }));
  }

  /** Runs a script that moves jobs. If the queue has groups, the scripts without them change nothing. */
  async move<Reply>(run: (own: typeof scripts.plain) => Promise<Reply>): Promise<Reply> {
    try {
      return await run(this.#scripts);
    } catch (error) {
      if (!KitError.is(error) || !error.message.includes("KIT_GROUPS")) throw error;
    }
    return await run(await this.#withGroups());
  }

  async #withGroups(): Promise<typeof scripts.plain> {
    return (this.#scripts = (await import("./grouped/index.js")).grouped);
  }

  /** Reports that a background loop of a worker failed, and waits before its next try. */
  async failed(loop: string, what: string, error: unknown, attempt: number): Promise<void> {
    this.outage.failed(loop, asKitError(error, what));
    await this.rest(backoffMs(attempt, 50, 2_000));
  }

  /** The wait before the next try of a background loop: `ms`, or less if the server answers again, or `signal` aborts. */
  async rest(ms: number, signal: AbortSignal = this.life.signal): Promise<void> {
    const ended = new AbortController();
    const stop = this.context.executor.onReady(() => ended.abort());
    await pause(ms, AbortSignal.any([signal, ended.signal])).catch(() => undefined);
    stop();
  }

  #keysFor(plan: string, answeredTo: readonly string[]): AddKeys {
    const answered = answeredTo.map((producer) => answeredKey(this.head, producer));
    const others = plan.includes(planned("group")) ? groupKeys.map((part) => this.keys[part]) : [];
    if (/\t(?:ifNew|answer)/.test(plan)) others.push(...onceKeys(this.keys, answered, plan.includes(planned("key"))));
    return { ...this.keys, others };
  }

  /**
   * Estimates the server's clock from the time in a reply. A call may have been slow, so the fastest calls count, until a reply contradicts
   * them because a clock was set. `sentAt` is in our wall clock.
   */
  learnOffset(now: number, sentAt: number): void {
    const [least, most] = [now - wallMs(), now - sentAt];
    const isSet = least > this.offsetMs || most < this.#leastOffsetMs;
    this.#leastOffsetMs = isSet ? least : Math.max(least, this.#leastOffsetMs);
    this.offsetMs = isSet ? most : Math.min(most, this.offsetMs);
  }

  async #open(deadlineMs: number): Promise<void> {
    const sentAt = wallMs();
    this.learnOffset(await this.run(scripts.open, { layout: scripts.layout }, deadlineMs), sentAt);
    const policy = await this.#evictionPolicy(deadlineMs);
    if (policy?.startsWith("allkeys") && !this.settings.allowEviction) throw new QueueEvictionError(this.#name, policy);
    if (policy !== undefined && policy !== this.#policy) this.#events.evictable(policy);
    this.#policy = policy;
    this.#isOpen = true;
  }

  async #evictionPolicy(deadlineMs: number): Promise<string | undefined> {
    try {
      return await evictionPolicy(this.context, this.keys.meta, deadlineMs);
    } catch (error) {
      // `KIT_SERVER`: an HTTP endpoint or a proxy that has no INFO in scripts, and reports this in its own words.
      if (!KitError.is(error) || (error.code !== "KIT_NO_PERMISSION" && error.code !== "KIT_SERVER")) throw error;
      this.#events.error(error);
      return undefined;
    }
  }

  /** Another server may have the queue now. Adds wait for the check. Workers continue, and emit its error. */
  async #reopen(): Promise<void> {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    for (let attempt = 1; !this.#isOpen && !this.life.signal.aborted; attempt++)
      try {
        this.#server++;
        await this.open();
      } catch (reason) {
        const error = asKitError(reason, "Opening the queue");
        if (error.retryable) await this.rest(backoffMs(attempt, 50, 2_000));
        else if (!this.life.signal.aborted) {
          this.#isOpen = true;
          this.#events.error(error);
        }
      }
  }
}
