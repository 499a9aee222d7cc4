import { KitError, type RedisLike } from "@kit/core";
import { type ClientContext, Deadline, newToken, reading, resolve, withContext } from "@kit/core/toolkit";
import { checkedAddress } from "../store/address.js";
import { QueueCommands } from "../store/commands.js";
import { answeredKey, onceKeys, type QueueAddress } from "../job/keys.js";
import { planned } from "../job/words.js";
import { queueSettings } from "../store/options.js";
import { createSchedules, type Schedules } from "../schedules/schedules.js";
import { add, type AddReply } from "../store/scripts/index.js";
import { AdoptionError } from "./errors.js";
import { type AdoptOptions, adoptRules, type BullAddress, bullRules } from "./options.js";
import type { BullLook, Entry, Item, Kind } from "./scripts/index.js";
import { BullQueue, type StoredBullJob } from "./source.js";
import {
  adoptedJob,
  type AdoptedJob,
  adoptedSchedule,
  type AdoptedSchedule,
  hasOwnStrategy,
  isChild,
  refusalOf,
} from "./translate.js";

/** The maximum number of jobs in a slice, and the approximate maximum size of their data in bytes. */
const maxJobs = 100;
const maxBytes = 1_024 * 1_024;

/** A job or job scheduler that stays in BullMQ. */
export interface Refused {
  readonly id: string;
  readonly kind: "job" | "scheduler";
  readonly reason: string;
}

/** What an adoption did, or would do. */
export interface AdoptReport {
  readonly isDryRun: boolean;
  /** The BullMQ queue is paused. */
  readonly isPaused: boolean;
  /** How many jobs and schedules were moved, or would be moved. */
  readonly moved: {
    readonly waiting: number;
    readonly prioritised: number;
    readonly delayed: number;
    readonly schedules: number;
  };
  /**
   * The number of jobs in states that an adoption does not move. `children` counts the ready and delayed children of flows: they stay,
   * because their parents wait for them in BullMQ.
   */
  readonly left: {
    readonly active: number;
    readonly failed: number;
    readonly waitingChildren: number;
    readonly children: number;
  };
  /** Ready and delayed jobs, and job schedulers, that stay in BullMQ. */
  readonly refused: readonly Refused[];
  /**
   * The ids of jobs that may not have been added, because an earlier call died in the middle of their slice more than ten minutes ago.
   * These jobs are no longer in BullMQ. Each of them was added, unless the queue had a job of its id or key at that time.
   */
  readonly unsure: readonly string[];
  /** How many of the moved jobs use a custom backoff strategy of your BullMQ worker. Give `work()` a `backoff` function to replace it. */
  readonly ownStrategies: number;
}

const movedAs = {
  wait: "waiting",
  paused: "waiting",
  prioritized: "prioritised",
  delayed: "delayed",
  repeat: "schedules",
} as const;
const jobKinds = ["wait", "paused", "prioritized", "delayed"] as const;

/** One call of {@link adoptBullQueue}. */
class Adoption {
  readonly #name: string;
  readonly #from: BullQueue;
  readonly #to: QueueCommands;
  readonly #schedules: Schedules;
  readonly #head: string;
  readonly #options: Pick<AdoptOptions, "timezone" | "signal"> & { readonly run: boolean };
  readonly #moved = { waiting: 0, prioritised: 0, delayed: 0, schedules: 0 };
  readonly #refused = new Map<string, Refused>();
  /** The next jobs of the job schedulers that were moved, or would be moved. */
  readonly #nexts = new Set<string>();
  readonly #unsure: string[] = [];
  #ownStrategies = 0;
  #token = "";
  #number = 0;

  constructor(
    name: string,
    from: BullQueue,
    to: QueueCommands,
    schedules: Schedules,
    head: string,
    options: AdoptOptions,
  ) {
    this.#name = name;
    this.#from = from;
    this.#to = to;
    this.#schedules = schedules;
    this.#head = head;
    this.#options = { ...options, run: options.run ?? false };
  }

  async adopt(seen: BullLook): Promise<AdoptReport> {
    const isDryRun = !this.#options.run;
    if (isDryRun) for (const { kind } of seen.items) this.#moved[movedAs[kind]]++;
    else await this.#goOn(seen);
    await this.#adoptSchedulers();
    for (let before = -Infinity; this.#total - before >= maxJobs && (!isDryRun || before < 0);) {
      before = this.#total;
      for (const kind of jobKinds) await this.#adoptJobs(kind);
    }
    const { active, failed, waitingChildren, isPaused } = await this.#from.look();
    const refused = [...this.#refused.values()];
    const children = refused.filter(({ reason }) => reason === isChild).length;
    return {
      ...{ isDryRun, isPaused, moved: { ...this.#moved }, left: { active, failed, waitingChildren, children } },
      ...{ refused, unsure: this.#unsure, ownStrategies: this.#ownStrategies },
    };
  }

  get #total(): number {
    return Object.values(this.#moved).reduce((sum, count) => sum + count, 0);
  }

  /** Completes the slice that an earlier or concurrent call holds. */
  async #goOn({ token, target, number, items }: BullLook): Promise<void> {
    if (items.length > 0 && target !== this.#head)
      throw new AdoptionError(
        this.#name,
        `has jobs of an unfinished adoption into ${target}. Repeat that adoption first`,
      );
    this.#token = token === "" ? newToken() : token;
    this.#number = number;
    if (items.length > 0) await this.#finish(items);
  }

  async #adoptSchedulers(): Promise<void> {
    const entries: Entry[] = [];
    for (let page: readonly Entry[] = [], start = 0; start === 0 || page.length === maxJobs; start += maxJobs)
      entries.push(...(page = await this.#from.page("repeat", start, maxJobs)));
    for (const entry of entries) {
      const { id } = entry;
      const { next, schedule, refusal } = await this.#schedule(entry);
      if (refusal !== undefined) this.#refuse("scheduler", id, refusal);
      else if (await this.#schedules.get(id))
        this.#refuse("scheduler", id, "the queue already has a schedule with this id: remove one of them");
      else if (await this.#move("repeat", 0, [entry], schedule && next)) this.#nexts.add(next);
      else this.#refuse("scheduler", id, "its next job has started or was removed: repeat the adoption");
    }
  }

  async #schedule(entry: Entry): Promise<AdoptedSchedule & { readonly next: string }> {
    const stored = await this.#from.scheduler(entry);
    return { next: stored.next, ...(await adoptedSchedule(entry, stored, this.#options.timezone)) };
  }

  /** Moves the jobs that one list or sorted set has now, the next ones first. */
  async #adoptJobs(kind: (typeof jobKinds)[number]): Promise<void> {
    let wanted = (await this.#from.look())[kind];
    for (let start = 0; wanted > 0;) {
      const entries = await this.#from.page(kind, start, maxJobs);
      if (entries.length === 0) return;
      const chosen = await this.#movable(entries.filter(({ id }) => !this.#refused.has(`job ${id}`)));
      if (chosen.length > 0) await this.#move(kind, start, chosen);
      wanted -= Math.max(1, chosen.length);
      // Refused jobs stay ahead of the others.
      if (chosen.length === 0 || !this.#options.run) start += entries.length;
    }
  }

  /** Reads jobs, and refuses the ones that cannot move. Returns the others, up to the size of a slice. */
  async #movable(entries: readonly Entry[]): Promise<Entry[]> {
    if (entries.length === 0) return [];
    const jobs = await this.#from.jobs(
      entries.map(({ id }) => id),
      false,
    );
    const chosen: Entry[] = [];
    let bytes = 0;
    for (const [index, entry] of entries.entries()) {
      const job = jobs[index];
      const refusal = refusalOf(entry.id, job, !this.#options.run && this.#nexts.has(entry.id));
      if (refusal !== undefined) this.#refuse("job", entry.id, refusal);
      else {
        bytes += job?.bytes ?? 0;
        if (chosen.length > 0 && bytes > maxBytes && this.#options.run) break;
        chosen.push(entry);
      }
    }
    return chosen;
  }

  /** Returns whether BullMQ still had some of the entries. */
  async #move(kind: Kind, start: number, entries: readonly Entry[], next = ""): Promise<boolean> {
    this.#options.signal?.throwIfAborted();
    if (!this.#options.run) {
      this.#moved[movedAs[kind]] += entries.length;
      return true;
    }
    const slice = { token: this.#token, target: this.#head, number: this.#number + 1 };
    const items = await this.#from.hold(slice, kind, start, entries, next);
    if (items.length === 0) {
      // Workers were faster, or another adoption of this queue is running.
      await this.#goOn(await this.#from.look());
      return false;
    }
    this.#number++;
    await this.#finish(items);
    return true;
  }

  /**
   * Adds the jobs of the slice that is held, then releases the slice. If the server refuses the jobs permanently, all of them return to
   * BullMQ.
   */
  async #finish(items: readonly Item[]): Promise<void> {
    const scheduler = items.find(({ kind }) => kind === "repeat");
    const { schedule, refusal: stays } = scheduler ? await this.#schedule(scheduler) : {};
    if (scheduler && stays) {
      this.#refuse("scheduler", scheduler.id, stays);
      return await this.#release(items, [], new Set(items));
    }
    const back = new Set<Item>();
    const jobItems = items.filter(({ kind }) => kind !== "repeat");
    const jobs = await this.#from.jobs(
      jobItems.map(({ id }) => id),
      true,
    );
    const moving: { readonly item: Item; readonly adopted: AdoptedJob }[] = [];
    for (const [index, item] of jobItems.entries()) {
      const job = jobs[index];
      const refusal = refusalOf(item.id, job);
      if (job && refusal === undefined) {
        moving.push({ item, adopted: adoptedJob(item, job) });
        if (hasOwnStrategy(job)) this.#ownStrategies++;
      } else if (job) {
        back.add(item);
        this.#refuse("job", item.id, refusal ?? "");
      } else this.#unsure.push(item.id);
    }
    const failed = (error: unknown): Promise<never> => this.#addFailed(error, items, jobs);
    const { answers } = await this.#add(moving.map(({ adopted }) => adopted)).catch(failed);
    for (const [index, { item }] of moving.entries()) {
      const answer = answers[index];
      if (answer?.isAdded === false) {
        back.add(item);
        this.#refuse(
          "job",
          item.id,
          `the queue already has a job with its ${answer.id === item.id ? "id" : "key"}: ${answer.id}`,
        );
      } else if (answer) this.#moved[movedAs[item.kind]]++;
      else this.#unsure.push(item.id);
    }
    if (scheduler) {
      if (schedule) await this.#schedules.upsert(scheduler.id, schedule).catch(failed);
      this.#moved.schedules++;
    }
    await this.#release(items, jobs, back);
  }

  async #release(items: readonly Item[], jobs: readonly (StoredBullJob | undefined)[], back: Set<Item>): Promise<void> {
    await this.#from.release({ token: this.#token, number: this.#number }, items, jobs, back);
  }

  /**
   * Returns a slice to BullMQ that was not added and that a retry would not add either. The first write of `add.lua` is the number of the
   * slice: without the number, nothing was written. A full server refuses this write as well. If the return fails, the slice waits for the
   * next call.
   */
  async #addFailed(
    error: unknown,
    items: readonly Item[],
    jobs: readonly (StoredBullJob | undefined)[],
  ): Promise<never> {
    const isOpen =
      error instanceof KitError &&
      (error.code === "KIT_UNKNOWN_OUTCOME" || (error.retryable && error.code !== "KIT_SERVER_FULL"));
    if (!isOpen) {
      const added = await read(this.#to, "zscore", "adopted", this.#token).catch(() => null);
      if (Number(added) < this.#number) await this.#release(items, jobs, new Set(items)).catch(() => undefined);
    }
    throw error;
  }

  /** A slice is added only once, because its number is recorded together with its jobs. */
  async #add(jobs: readonly AdoptedJob[]): Promise<AddReply> {
    if (jobs.length === 0) return { now: 0, answers: [] };
    const { keys, context } = this.#to;
    const plan = jobs.map(({ id, words }) => `${id}${words}`).join("\n");
    const others = onceKeys(keys, [answeredKey(this.#head, this.#token)], plan.includes(planned("key")));
    return await add.run(
      context,
      { ...keys, producers: keys.adopted, others },
      { producer: this.#token, sequence: this.#number, isNew: "0", plan, blobs: jobs.map(({ blob }) => blob) },
    );
  }

  #refuse(kind: Refused["kind"], id: string, reason: string): void {
    this.#refused.set(`${kind} ${id}`, { id, kind, reason });
  }
}

const read = async (
  { context, keys }: QueueCommands,
  command: "hexists" | "zscore",
  key: "limits" | "adopted",
  field: string,
): Promise<unknown> =>
  await context.executor.run(command, [keys[key], field], reading(`Reading the key ${key}`, Deadline.in(2_000)));

/**
 * Moves a BullMQ queue (version 5 or 6) into a queue: ready and delayed jobs, and job schedulers as schedules. BullMQ's workers and
 * producers can keep running. First stop BullMQ workers older than version 5.35, because they can add jobs of job schedulers that have
 * moved. Active and failed jobs stay in BullMQ, and so do flows: keep its workers running until the flows have ended. Without `run`, the
 * call changes nothing, and reports what it would do.
 *
 * Jobs move in slices of up to 100 jobs and about 1 MiB. Each slice moves in three steps: out of BullMQ's lists, into the queue, and out of
 * BullMQ. Each job runs once, in BullMQ or here, or the report names it. If the process dies, call again: the next call first completes the
 * slice that was in progress. If the server refuses to add a slice (a missing permission, its memory limit, a key of another type), the
 * call puts the jobs back in their places in BullMQ, and rejects. The call ends when a round over all lists has moved fewer than 100 jobs.
 * Another call moves the few jobs that were added in the meantime.
 *
 * A job keeps its id, stored data, order, priority, due time and remaining attempts. It loses its progress and log lines. The guide lists
 * the counterparts of all options.
 *
 * @throws {AdoptionError} the BullMQ queue is paused and your kit queue is not, or another queue is adopting it. Nothing was changed.
 * @throws {KitUnavailableError | KitUnknownOutcomeError} as for every command. Call it again to continue.
 * @throws {QueueEvictionError} the server can evict jobs.
 * @throws {TypeError | RangeError} an argument is invalid.
 *
 * @example
 * const report = await adoptBullQueue(redis, { from: "mail" }, { queue: "mail" }, { run: true });
 * if (report.refused.length > 0) await notify(report.refused);
 */
export const adoptBullQueue = async (
  redis: RedisLike,
  source: BullAddress,
  target: QueueAddress,
  options: AdoptOptions = {},
): Promise<AdoptReport> => {
  const { from, bullPrefix, redis: bullRedis = redis } = resolve("source", source, bullRules, undefined, "source.");
  const { queue, prefix, head } = checkedAddress(target);
  const settings = resolve("options", options, adoptRules);
  const ignored = (): void => undefined;
  const commands = new QueueCommands(
    redis,
    queue,
    queueSettings({ prefix }),
    { error: ignored, evictable: ignored },
    `The adoption into queue ${JSON.stringify(queue)}`,
  );
  const schedules = createSchedules(redis, queue, { prefix });
  try {
    return await withContext(bullRedis, async (context: ClientContext) => {
      const bull = new BullQueue(context, bullPrefix, from);
      const seen = await bull.look();
      if (settings.run) {
        if (seen.isPaused && (await read(commands, "hexists", "limits", "paused")) !== 1)
          throw new AdoptionError(
            from,
            `is paused, but queue ${JSON.stringify(queue)} is not. Pause both, or resume the BullMQ queue`,
          );
        await commands.open();
      }
      return await new Adoption(from, bull, commands, schedules, head, settings).adopt(seen);
    });
  } finally {
    await schedules.close();
    await commands.life.close({}, () => Promise.resolve());
  }
};
