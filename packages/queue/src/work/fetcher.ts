import type { KitError } from "@kit/core";
import { asKitError, backoffMs, type Deadline, type OutageReporter, pause } from "@kit/core/toolkit";
import { type EndedJob, isUnknown, type QueueCommands, type StepRequest } from "../commands.js";
import { Condition } from "./condition.js";
import { isMade } from "../add/ids.js";
import { JobLeases } from "./leases.js";
import type { WorkSettings } from "../options.js";
import { parseBlob, type StoredJob } from "../add/payload.js";
import { handBack, maxEnded, type Reclaimed, type StepReply } from "../scripts/index.js";
import { TakeIdSource } from "./take-id.js";
import { TakenJob } from "./taken.js";
import { type Marker, Waiter } from "./waiter.js";

/** How a job ends: done, dead, or tried again after this many ms. */
export interface Ending {
  readonly job: TakenJob;
  readonly verdict: "done" | "dead" | number;
  /** Its record for `failures`; empty where it is done. */
  readonly record: string;
  readonly error: unknown;
  /** The outcome for its caller, as `outcomes.lua` returns it; undefined if nobody waits for it. */
  readonly outcome?: string | Buffer | undefined;
}

/** How many jobs a worker wants. */
export interface Demand {
  readonly count: number;
  /** How many of them have a free handler. The others are taken ahead: only while no worker is idle. */
  readonly sure: number;
}

/** The part of the worker that the intake uses. */
export interface IntakeHost {
  /** How many jobs to take, when calls under way may bring `pending` more and this call frees `ending` slots. */
  demand(pending: number, ending: number): Demand;
  deliver(jobs: readonly TakenJob[]): void;
  /** The server has ended the job, or has refused because it took the lease back. */
  ended(ending: Ending, isAccepted: boolean): void;
  lost(job: TakenJob): void;
  /** There is nothing to take, or no server: the intake waits. */
  emptied(): void;
  reclaimed(leases: readonly Reclaimed[]): void;
}

/** The second call travels while the server works on the first one; a third gained nothing when measured. */
const maxInFlight = 2;
/** Replies with more than 250 jobs hold up everything else. */
const maxTaken = 250;
const maxTakenBytes = 4 * 1_024 * 1_024;
/** The most jobs of a call that the server ends one by one: failed jobs, jobs with an id of their caller, jobs that were called. */
const maxOthers = 100;
const maxOutcomeBytes = 1_024 * 1_024;
const verdictWords: Readonly<Record<string, string>> = { done: "d", dead: "x" };
/** The least time between two looks for due jobs and ended leases, unless there is a reason for one. */
const lookEveryMs = 5;
/** How much longer the other workers wait, in case the timekeeper is gone. */
const backupMs = { least: 50, spread: 200 };
/** How long an idle worker goes without the server's time: it costs a command. */
const timeEveryMs = 45_000;
/** How many jobs that were handed back before the server looks for, to put the next one behind. */
const maxPivots = 16;
const longestTimerMs = 1_000_000_000;
export const nothing: Demand = { count: 0, sure: 0 };
/** How late completed jobs are counted. */
const countEveryMs = 1_000;

/** A job whose header cannot be read: it has no name. */
const damaged: StoredJob = parseBlob(Buffer.from("0  y\n"));

/**
 * Connects one worker to one queue: takes jobs, ends them, waits when there are none, keeps their leases, and hands back
 * the jobs of lost replies.
 */
export class Intake {
  readonly leases: JobLeases;
  readonly #commands: QueueCommands;
  readonly #settings: WorkSettings;
  readonly #bounds: string;
  readonly #outage: OutageReporter;
  readonly #host: IntakeHost;
  readonly #takeIds = new TakeIdSource();
  readonly #waiter: Waiter;
  readonly #lostTakes = new Set<string>();
  #outbox: Ending[] = [];
  /** Ended jobs whose end the server has not confirmed yet. */
  #unconfirmed = 0;
  #inFlight = 0;
  /** The jobs that were handed back since the worker closes, in the order in which they were taken. */
  readonly #returned: TakenJob[] = [];
  #received = 0;
  /** Calls that hand jobs back. */
  #returning = 0;
  /** How many jobs the calls under way may bring, including the waiting call. */
  #pending = 0;
  #isTaking = false;
  #isWaiting = false;
  /** The last take found fewer jobs than it asked for. */
  #isDrained = false;
  #isDisposed = false;
  #immediate: NodeJS.Immediate | undefined;
  #retryTimer: NodeJS.Timeout | undefined;
  #failures = 0;
  #isRecovering = false;
  #blobBytes = 1_024;
  /** Completed jobs that the server has not counted yet. */
  #completed = 0;
  #countTimer: NodeJS.Timeout | undefined;
  #upkeepAt = 0;
  #watchedAt = -Infinity;
  #lookedAt = -Infinity;
  /** When a reply last had the server's time. */
  #timedAt = -Infinity;
  #mustLook = true;
  /** The timekeeper wakes exactly at the next due time; other workers wait a little longer. */
  #isTimekeeper = false;
  #timer: NodeJS.Timeout | undefined;
  #isTimerForDue = false;
  /** The timer for a due job has fired, and its look has not been answered yet. */
  #hasFiredForDue = false;
  readonly #rest = new Condition(() => this.#isSettled);

  constructor(
    commands: QueueCommands,
    settings: WorkSettings,
    deadLetters: string,
    outage: OutageReporter,
    host: IntakeHost,
  ) {
    this.#commands = commands;
    this.#settings = settings;
    this.#bounds = `${String(settings.maxCrashes)} ${deadLetters}`;
    this.#outage = outage;
    this.#host = host;
    this.leases = new JobLeases(commands, settings.leaseMs, outage, (job) => host.lost(job));
    this.#waiter = new Waiter(commands, outage, (takeId) => this.#lose(takeId));
  }

  /** Ended jobs whose end the server has not confirmed yet. */
  get unconfirmed(): number {
    return this.#unconfirmed;
  }

  /** The last take found nothing, and the intake waits to be woken. */
  get isParked(): boolean {
    return this.#isWaiting;
  }

  /** The server cannot be reached, or refuses. */
  get isFailing(): boolean {
    return this.#failures > 0;
  }

  /** Takes jobs from now on. Before this call `pump()` sends nothing. */
  start(): void {
    this.#isTaking = true;
    this.pump();
  }

  end(ending: Ending): void {
    this.#unconfirmed++;
    this.#outbox.push(ending);
  }

  /** Deferred a little, so that jobs that end in the same turn travel together. */
  schedule(): void {
    this.#immediate ??= setImmediate(() => {
      this.#immediate = undefined;
      this.pump();
    });
  }

  /** Sends ended jobs and takes as many as are wanted; or waits. */
  pump(): void {
    if (this.#isDisposed || this.#retryTimer) return;
    while (this.#inFlight < maxInFlight) {
      const ending = Math.min(this.#outbox.length, maxEnded);
      const mayTake = this.#isTaking && !this.#isDrained && !this.#isWaiting && this.#takeIds.hasFree;
      const wanted = mayTake ? this.#wanted(ending) : nothing;
      const isOwed = this.#isTaking ? this.#mustLook : this.#completed > 0 && this.#takeIds.hasFree;
      if (wanted.count === 0 && ending === 0 && !isOwed) break;
      void this.#call(wanted);
    }
    if (this.#isTaking && this.#isDrained && !this.#isWaiting && this.#pending === 0 && this.#takeIds.hasFree) {
      // A worker that waits counts as idle, so it waits only for a free handler.
      const wanted = this.#wanted(0);
      if (wanted.sure > 0) void this.#wait(wanted);
    }
  }

  /** Takes no more jobs, and ends the wait. */
  stopTaking(): void {
    this.#isTaking = false;
    clearTimeout(this.#timer);
    this.#waiter.close();
  }

  /**
   * Returns jobs to the front of the queue, in the order in which they were taken. While the worker closes, those that follow one by one
   * keep that order, too. Where this fails, their leases end by themselves. `settle()` waits for it.
   */
  async handBack(jobs: readonly TakenJob[]): Promise<void> {
    if (jobs.length === 0) return;
    for (const job of jobs) {
      job.state = "ended";
      this.leases.release(job);
    }
    this.#returning++;
    const sorted = jobs.toSorted((a, b) => a.order - b.order);
    while (sorted.length > 0 && !this.#isDisposed) {
      const [first] = sorted;
      const place = this.#returned.findLastIndex(({ order }) => order < (first?.order ?? 0)) + 1;
      const next = this.#returned[place]?.order ?? Infinity;
      const until = sorted.findIndex(({ order }) => order > next);
      const some = sorted.splice(0, until < 0 ? maxEnded : Math.min(until, maxEnded));
      const after = this.#returned.slice(Math.max(0, place - maxPivots), place).toReversed();
      if (!this.#isTaking) this.#returned.splice(place, 0, ...some);
      const args = {
        members: some.map(({ member }) => member).join("\n"),
        after: after.map(({ entry }) => entry).join("\n"),
      };
      await this.#commands
        .run(handBack, args)
        .catch((error: unknown) => this.#outage.report(asKitError(error, "Handing jobs back")));
    }
    this.#returning--;
    this.#rest.look();
  }

  /** Resolves once the server has confirmed every job that was ended or handed back; or at `deadline`. */
  async settle(deadline: Deadline): Promise<void> {
    this.pump();
    await this.#rest.until(deadline);
  }

  dispose(): void {
    this.#isDisposed = true;
    clearImmediate(this.#immediate);
    clearTimeout(this.#retryTimer);
    clearTimeout(this.#timer);
    clearTimeout(this.#countTimer);
    this.leases.close();
  }

  get #isSettled(): boolean {
    const isSending = this.#inFlight > 0 || this.#returning > 0 || this.#isWaiting;
    return this.#unconfirmed + this.#completed === 0 && !isSending && this.#lostTakes.size === 0;
  }

  #wanted(ending: number): Demand {
    const most = Math.max(1, Math.min(maxTaken, Math.floor(maxTakenBytes / this.#blobBytes)));
    const { count, sure } = this.#host.demand(this.#pending, ending);
    return { count: Math.min(count, most), sure: Math.min(sure, most) };
  }

  #request({ count, sure }: Demand, isWoken: boolean): StepRequest {
    const now = performance.now();
    const looks = isWoken || this.#mustLook || now - this.#lookedAt >= lookEveryMs;
    if (looks) {
      this.#lookedAt = now;
      this.#mustLook = false;
    }
    const { leaseMs } = this.#settings;
    const announces = count > 0 && this.leases.jobs.length === 0 && now - this.#watchedAt > leaseMs / 2;
    const { context, keys } = this.#commands;
    const isTimed = now - this.#timedAt < timeEveryMs && context.clockOf(keys.leases).earliest(0) !== undefined;
    const flags = `${isWoken ? "w" : ""}${isTimed ? "" : "t"}${looks ? "l" : ""}${announces ? "s" : ""}`;
    // Where no take can be recorded, no repeat of the call would be known. The step behind a wait may run much later, or never.
    const mayCount = this.#takeIds.hasFree && !(isWoken && this.#completed > 0);
    const upkeep = mayCount ? this.#upkeep(now) : "";
    return { takeId: this.#takeIds.take(), count, sure, leaseMs, flags, bounds: this.#bounds, upkeep };
  }

  /** Sends the counts once a second; at least once a minute the server drops dead letters that are too old. */
  #upkeep(now: number): string {
    const isDue = this.#isTaking
      ? now - this.#upkeepAt >= (this.#completed > 0 ? countEveryMs : 60_000)
      : this.#completed > 0;
    if (!isDue) return "";
    this.#upkeepAt = now;
    const text = String(this.#completed);
    this.#completed = 0;
    return text;
  }

  async #call(wanted: Demand): Promise<void> {
    const endings = this.#takeEndings();
    const request = this.#request(wanted, false);
    const { count } = wanted;
    const done: string[] = [];
    const others: EndedJob[] = [];
    const callers: string[] = [];
    for (const ending of endings) {
      const { job, verdict, record } = ending;
      if (isSimple(ending)) done.push(job.member);
      else {
        const answer = this.#answer(ending, callers);
        others.push({ member: job.member, verdict: verdictWords[verdict] ?? verdict, record, answer });
      }
    }
    this.#inFlight++;
    this.#pending += count;
    const sentAt = performance.now();
    const outcome = await this.#commands
      .step(request, { done: done.join("\n"), others, callers })
      .catch((error: unknown) => ({ error }));
    this.#inFlight--;
    this.#pending -= count;
    if ("error" in outcome) {
      this.#outbox.unshift(...endings);
      if (!isUnknown(outcome.error)) this.#completed += Number(request.upkeep);
      else {
        for (const { job } of endings) job.isRepeat = true;
        this.#lose(request.takeId);
      }
      this.#fail(asKitError(outcome.error, "A step of the worker"));
    } else {
      this.#failures = 0;
      this.#outage.worked("taking");
      this.#confirm(endings, outcome.refused);
      this.#receive(outcome, request, sentAt, undefined);
    }
    this.#settled(request);
  }

  /** The slot of the call is free, unless its reply was lost. */
  #settled({ takeId }: StepRequest): void {
    if (!this.#lostTakes.has(takeId)) this.#takeIds.free(takeId);
    this.#rest.look();
    this.pump();
  }

  #takeEndings(): readonly Ending[] {
    let others = 0;
    let bytes = 0;
    const last = this.#outbox.findIndex((ending) => {
      if (isSimple(ending)) return false;
      bytes += ending.outcome?.length ?? 0;
      return ++others > maxOthers || (bytes > maxOutcomeBytes && others > 1);
    });
    return this.#outbox.splice(0, Math.min(last < 0 ? maxEnded : last, maxEnded));
  }

  /** The `answer` of `step.lua` for the caller of a job: the number of its key among `callers`, channel, name, outcome. */
  #answer({ job, outcome }: Ending, callers: string[]): string | Buffer {
    const { replyTo } = job.header;
    if (outcome === undefined || replyTo === undefined) return "";
    const [inbox = "", caller = ""] = replyTo.split(".");
    if (!callers.includes(caller)) callers.push(caller);
    const channel = `${this.#commands.context.prefix}:inbox:${inbox}`;
    const head = `${String(callers.indexOf(caller) + 1)} ${channel} ${caller} `;
    return typeof outcome === "string" ? head + outcome : Buffer.concat([Buffer.from(head), outcome]);
  }

  #confirm(endings: readonly Ending[], refused: readonly string[]): void {
    const isRefused = refused.length === 0 ? undefined : new Set(refused);
    this.#unconfirmed -= endings.length;
    for (const ending of endings) {
      const { job } = ending;
      job.state = "ended";
      this.leases.release(job);
      const isAccepted = !isRefused?.has(job.member);
      if (isAccepted && ending.verdict === "done") this.#completed++;
      this.#host.ended(ending, isAccepted);
    }
    // If no other call takes the count along.
    if (this.#completed > 0)
      this.#countTimer ??= setTimeout(() => {
        this.#countTimer = undefined;
        this.#mustLook = true;
        this.pump();
      }, countEveryMs).unref();
  }

  async #wait(wanted: Demand): Promise<void> {
    this.#isWaiting = true;
    const { count } = wanted;
    this.#pending += count;
    this.#host.emptied();
    const request = this.#request(wanted, true);
    const woken = await this.#waiter.wait(request);
    this.#isWaiting = false;
    this.#pending -= count;
    if (woken) this.#receive(woken.reply, request, woken.sentAt, woken.marker);
    else {
      // The next call takes what was missed meanwhile: the wait may have popped the marker of a job.
      this.#mustLook = true;
      this.#isDrained = false;
    }
    this.#settled(request);
  }

  #receive(reply: StepReply, request: StepRequest, sentAt: number, marker: Marker | undefined): void {
    const { context, keys } = this.#commands;
    const takenAt = Math.floor(reply.nowMicros / 1_000);
    const clock = context.clockOf(keys.leases);
    // The step behind a wait ran at an unknown instant since it was sent. After a reconnect, with the server's clock not known,
    // its time says little.
    const isTimed = !request.flags.includes("w") || clock.earliest(0) !== undefined;
    if (reply.nowMicros > 0) {
      if (isTimed) {
        clock.observe(sentAt, takenAt);
        this.#timedAt = performance.now();
      } else this.#mustLook = true;
    }
    if (request.count > 0) this.#isDrained = reply.entries.length < request.count && !reply.isMore;
    if (reply.reclaimed.length > 0) {
      this.leases.loseAll(new Set(reply.reclaimed.map(({ member }) => member)));
      this.#host.reclaimed(reply.reclaimed);
    }
    this.#judgeTimekeeper(reply, marker);
    this.#arm(reply, marker === "timer" || marker === "backup");
    if (reply.entries.length === 0) return;
    if (request.flags.includes("s")) this.#watchedAt = performance.now();
    const { takeId, leaseMs } = request;
    const take = { takeId, takenAt, leaseUntil: this.leases.endOf(takenAt, sentAt), receivedAt: performance.now() };
    // These leases may be as old as the wait: the jobs are handed back and taken again.
    if (!isTimed && take.leaseUntil - take.receivedAt < leaseMs / 2) return this.#lose(takeId);
    const { blobs, entries, records } = reply;
    const jobs = blobs.map(
      (blob, index) =>
        new TakenJob(entries[index] ?? "", blob, parse(blob), take, records[index] ?? "", this.#received++),
    );
    const bytes = blobs.reduce((sum, { length }) => sum + length, 0);
    // A moving average over about 64 jobs.
    this.#blobBytes += (bytes / blobs.length - this.#blobBytes) * Math.min(1, blobs.length / 64);
    this.leases.hold(jobs);
    if (this.#isTaking) this.#host.deliver(jobs);
    else void this.handBack(jobs);
  }

  /** The reply of a call was lost, and the call may have taken jobs. Its take id is kept until they have been handed back. */
  #lose(takeId: string): void {
    this.#lostTakes.add(takeId);
    if (!this.#isRecovering) void this.#recover();
  }

  async #recover(): Promise<void> {
    this.#isRecovering = true;
    for (let attempt = 1; this.#lostTakes.size > 0 && !this.#isDisposed;)
      for (const takeId of this.#lostTakes)
        try {
          await this.#commands.recover(takeId);
          this.#lostTakes.delete(takeId);
          this.#takeIds.free(takeId);
          this.#outage.worked("undoing");
          attempt = 1;
        } catch (error) {
          this.#outage.failed("undoing", asKitError(error, "Undoing a take"));
          await pause(backoffMs(++attempt, 50, 2_000));
        }
    this.#isRecovering = false;
    this.#rest.look();
    this.pump();
  }

  #fail(error: KitError): void {
    this.#mustLook = true;
    this.#outage.failed("taking", error);
    if (this.#isDisposed) return;
    if (this.#failures === 0) setImmediate(() => this.#host.emptied());
    this.#retryTimer ??= setTimeout(
      () => {
        this.#retryTimer = undefined;
        this.pump();
      },
      backoffMs(++this.#failures + 1, 20, 2_000),
    ).unref();
  }

  /**
   * A worker that popped the marker `timer`, or found due work, becomes the timekeeper; one that came too late loses the role.
   */
  #judgeTimekeeper({ promoted, nextDue = 0, nowMicros }: StepReply, marker: Marker | undefined): void {
    if (marker === "timer" || promoted > 0) this.#isTimekeeper = true;
    else if (this.#hasFiredForDue && nextDue - nowMicros / 1_000 > backupMs.least) this.#isTimekeeper = false;
    if (nextDue > 0) this.#hasFiredForDue = false;
  }

  /** Sets the timer for the next due job or the next end of a lease. */
  #arm({ nextDue, nextEnd, nowMicros }: StepReply, isWoken: boolean): void {
    if (nextDue === undefined || nextEnd === undefined || !this.#isTaking) return;
    clearTimeout(this.#timer);
    const now = nowMicros / 1_000;
    // The worker was woken to watch a lease that is already gone: any lease in its place ends no sooner than this.
    const woken = isWoken ? now + this.#settings.leaseMs : Infinity;
    const at = Math.min(nextDue, nextEnd, woken);
    this.#isTimerForDue = nextDue === at;
    if (at === Infinity) return;
    const later = this.#isTimekeeper ? 0 : backupMs.least + Math.random() * backupMs.spread;
    const waitMs = Math.min(longestTimerMs, Math.max(0, Math.ceil(at - now)) + later);
    this.#timer = setTimeout(() => {
      this.#mustLook = true;
      this.#hasFiredForDue = this.#isTimerForDue;
      this.pump();
    }, waitMs);
    this.#timer.unref();
  }
}

/** Whether the server may end the job together with others. */
const isSimple = ({ job, verdict, outcome }: Ending): boolean =>
  verdict === "done" && outcome === undefined && isMade(job.id);

const parse = (blob: Buffer): StoredJob => {
  try {
    return parseBlob(blob);
  } catch {
    return damaged;
  }
};
