import type { KitError } from "@kit/core";
import { asKitError, backoffMs, type Deadline } from "@kit/core/toolkit";
import { isUnknown, type QueueCommands, type StepRequest } from "../store/commands.js";
import type { QueueSettings } from "../store/options.js";
import type { WorkSettings } from "./options.js";
import { maxEnded, type Reclaimed, type StepReply } from "../store/scripts/index.js";
import { Condition } from "./condition.js";
import { EndedJobs } from "./ended.js";
import { type Ending, operandsOf } from "./endings.js";
import type { Recorder } from "./history.js";
import { JobLeases } from "./leases.js";
import { Maintenance } from "./maintenance.js";
import { Returns } from "./returns.js";
import { Room } from "./room.js";
import { jobsOf, type TakenJob } from "./taken.js";
import { Takes } from "./takes.js";
import { Timekeeper } from "./timekeeper.js";
import { type Marker, Waiter } from "./waiter.js";

/** How many jobs a worker wants. */
export interface Demand {
  readonly count: number;
  /** How many of them have a free handler. The others are taken ahead, only while no worker is idle. */
  readonly sure: number;
}

/** The part of the worker that the fetcher uses. */
export interface FetcherHost {
  /** How many jobs to take. Calls in progress can bring `pending` more. This call ends `ending` jobs. */
  demand(pending: number, ending: number): Demand;
  deliver(jobs: readonly TakenJob[]): void;
  /** The server has ended the job, or if not accepted, has refused because it had taken the lease back. */
  ended(ending: Ending, isAccepted: boolean): void;
  lost(job: TakenJob): void;
  /** No job of the queue can start now. */
  stopped(): void;
  /** The job was cancelled. If its end was sent, the server refused the end. */
  cancelled(job: TakenJob): void;
  /** The queue is empty or the server cannot be reached: the fetcher waits. */
  emptied(): void;
  reclaimed(leases: readonly Reclaimed[]): void;
  /** Dead letters of the last hour were dropped to make room. */
  dropped(count: number): void;
}

/** A second call travels while the server runs the first. A third call gained nothing when measured. */
const maxInFlight = 2;
/** Replies with more than 250 jobs delay everything else on the connection. */
const maxTaken = 250;
export const nothing: Demand = { count: 0, sure: 0 };

/**
 * Connects one worker to one queue with a loop of steps. Each step ends jobs and takes others. When there is none to take, the fetcher
 * waits on a dedicated connection until the server wakes it.
 */
export class Fetcher {
  readonly leases: JobLeases;
  readonly #commands: QueueCommands;
  readonly #settings: WorkSettings;
  readonly #bounds: string;
  readonly #host: FetcherHost;
  readonly #recorder: Recorder | undefined;
  readonly #ended = new EndedJobs(() => this.schedule());
  readonly #takes: Takes;
  readonly #returns: Returns;
  readonly #maintenance: Maintenance;
  readonly #timekeeper: Timekeeper;
  readonly #waiter: Waiter;
  #inFlight = 0;
  #received = 0;
  /** How many jobs the calls in progress can bring, including the waiting call. */
  #pending = 0;
  #isTaking = false;
  #isWaiting = false;
  /** The last take found fewer jobs than it requested. */
  #isDrained = false;
  /** At the last reply the queue had limits. */
  #isLimited = false;
  #immediate: NodeJS.Immediate | undefined;
  /** The last call failed, and the next try has to wait. */
  #isResting = false;
  #failures = 0;
  readonly #room: Room;
  readonly #rest = new Condition(() => this.#isSettled);
  /** True once, after a stop, no call in progress takes jobs and returned jobs are ready again, or when jobs are taken again. */
  readonly stopped: Condition = new Condition(() => this.#isTaking || this.#hasNoTake);

  constructor(commands: QueueCommands, settings: WorkSettings, queue: QueueSettings, host: FetcherHost) {
    const { leaseMs, maxCrashes } = settings;
    this.#commands = commands;
    this.#settings = settings;
    this.#bounds = `${String(maxCrashes)} ${queue.deadLetters}`;
    this.#recorder = queue.history as Recorder | undefined;
    this.#host = host;
    this.leases = new JobLeases(commands, leaseMs, (job, isCancelled) =>
      isCancelled ? host.cancelled(job) : host.lost(job),
    );
    this.#returns = new Returns(commands, this.leases, () => this.#lookAtRest());
    this.#room = new Room(queue.maxPayloadBytes, queue.deadlineMs);
    this.#takes = new Takes(commands, this.#room, () => this.#proceed());
    this.#maintenance = new Maintenance(leaseMs, () => this.pump());
    this.#timekeeper = new Timekeeper(leaseMs, () => this.#look());
    this.#waiter = new Waiter(commands, (takeId) => this.#takes.lose(takeId));
  }

  /** Ended jobs that the server has not confirmed yet. */
  get unconfirmed(): number {
    return this.#ended.unconfirmed;
  }

  /** The last take found nothing, and the fetcher waits to be woken. */
  get isWaiting(): boolean {
    return this.#isWaiting;
  }

  /** The last call failed: the server cannot be reached, or refuses. */
  get isFailing(): boolean {
    return this.#failures > 0;
  }

  /** Starts taking jobs. Before this call, and after `stopTaking()`, `pump()` takes none. */
  start(): void {
    this.#isTaking = true;
    this.#isDrained = false;
    this.#maintenance.mustLook = true;
    this.#returns.keepsOrder = false;
    this.#waiter.open();
    this.pump();
  }

  /** The server ends the job with the next step. */
  end(ending: Ending): void {
    this.#ended.add(ending);
  }

  /** Returns jobs to the front of the queue, in the order in which they were taken. `settle()` waits for this. */
  handBack(jobs: readonly TakenJob[]): Promise<void> {
    return this.#returns.handBack(jobs, this.#isLimited);
  }

  /** Pumps at the end of this turn of the event loop, so that jobs that end in the same turn share a call. */
  schedule(): void {
    this.#immediate ??= setImmediate(() => {
      this.#immediate = undefined;
      this.pump();
    });
  }

  /** Sends ended jobs and takes the jobs that the worker wants, or waits. */
  pump(): void {
    if (this.#isClosed || this.#isResting) return;
    while (this.#inFlight < maxInFlight) {
      const ending = Math.min(this.#ended.waiting, maxEnded);
      const mayTake = this.#isTaking && !this.#isDrained && !this.#isWaiting && this.#takes.hasFree;
      const wanted = mayTake ? this.#wanted(ending) : nothing;
      const { mustLook, completed } = this.#maintenance;
      const isOwed = this.#isTaking ? mustLook : completed > 0 && this.#takes.hasFree;
      if (wanted.count === 0 && ending === 0 && !isOwed) break;
      void this.#call(wanted);
    }
    if (this.#isTaking && this.#isDrained && !this.#isWaiting && this.#pending === 0 && this.#takes.hasFree) {
      // A worker that waits counts as idle, so it waits only when a handler is free.
      const wanted = this.#wanted(0);
      if (wanted.sure > 0 && !this.#maintenance.mustLook) void this.#wait(wanted);
    }
  }

  /** Stops taking jobs, and ends the wait. */
  stopTaking(): void {
    this.#isTaking = false;
    this.#returns.keepsOrder = true;
    this.#timekeeper.stop();
    this.#waiter.close();
  }

  /** Resolves once the server has confirmed every job that was ended or handed back, or at `deadline`. */
  async settle(deadline: Deadline): Promise<void> {
    this.pump();
    await this.#rest.until(deadline);
  }

  dispose(): void {
    clearImmediate(this.#immediate);
    this.#maintenance.close();
    this.leases.close();
  }

  get #isClosed(): boolean {
    return this.#commands.life.signal.aborted;
  }

  get #isSettled(): boolean {
    return this.#ended.unconfirmed + this.#maintenance.completed + this.#inFlight === 0 && this.#hasNoTake;
  }

  /** Whether the server holds no jobs for this worker except the jobs that it is working on. */
  get #hasNoTake(): boolean {
    return this.#pending + this.#returns.pending === 0 && !this.#isWaiting && !this.#takes.hasLost;
  }

  #lookAtRest(): void {
    this.#rest.look();
    this.stopped.look();
  }

  #wanted(ending: number): Demand {
    const { count, sure } = this.#host.demand(this.#pending, ending);
    return { count: Math.min(this.#isLimited ? sure : count, maxTaken), sure: Math.min(sure, maxTaken) };
  }

  #request({ count, sure }: Demand, isWoken: boolean): StepRequest {
    const startsWork = count > 0 && this.leases.jobs.length === 0;
    const flags = this.#maintenance.flags(isWoken, this.#isWaiting, startsWork, this.#isClockKnown);
    // If the take cannot be recorded, the server would not recognise a repeat. The step behind a wait may run much later, or never.
    const mayCount = this.#takes.hasFree && !(isWoken && this.#maintenance.completed > 0);
    const maintenance = mayCount ? this.#maintenance.take(!this.#isTaking) : "";
    const { leaseMs } = this.#settings;
    const room = this.#room.of(count);
    return { takeId: this.#takes.begin(), count, sure, room, leaseMs, flags, bounds: this.#bounds, maintenance };
  }

  async #call(wanted: Demand): Promise<void> {
    const endings = this.#ended.take();
    const request = this.#request(wanted, false);
    const { count } = wanted;
    const operands = operandsOf(endings, this.#commands.context.prefix);
    this.#inFlight++;
    this.#pending += count;
    if (this.#recorder && endings.length > 0) await this.#recorder.record(this.#commands, endings);
    const sentAt = performance.now();
    const outcome = await this.#commands.step(request, operands).catch((error: unknown) => ({ error }));
    this.#inFlight--;
    this.#pending -= count;
    if ("error" in outcome) {
      const mayHaveArrived = isUnknown(outcome.error);
      this.#ended.putBack(endings, mayHaveArrived);
      if (mayHaveArrived) this.#takes.lose(request.takeId);
      else this.#maintenance.completed += Number(request.maintenance);
      this.#fail(asKitError(outcome.error, "A step of the worker"));
    } else {
      this.#failures = 0;
      this.#confirm(endings, outcome);
      this.#receive(outcome, request, sentAt, undefined);
      // Only now, as the last leases may have ended. While there is work, no wait shows that connections are there again.
      if (!this.#isDrained) this.#commands.outage.connected("waiting");
      this.#commands.outage.worked("taking");
    }
    this.#takes.settled(request.takeId);
    this.#proceed();
  }

  #proceed(): void {
    this.#lookAtRest();
    this.pump();
  }

  #look(): void {
    this.#maintenance.mustLook = true;
    this.pump();
  }

  #confirm(endings: readonly Ending[], { refused, cancelled }: StepReply): void {
    const isRefused = refused.length === 0 ? undefined : new Set(refused);
    if (isRefused) void this.#recorder?.forget(this.#commands, refused);
    this.#ended.confirm(endings);
    for (const ending of endings) {
      const { job } = ending;
      job.state = "ended";
      this.leases.release(job);
      const isAccepted = !isRefused?.has(job.member);
      if (isAccepted && ending.verdict === "done" && !ending.isExpired) {
        this.#maintenance.completed++;
        job.notes?.close();
      }
      if (!isAccepted && cancelled.includes(job.member)) this.#host.cancelled(job);
      else this.#host.ended(ending, isAccepted);
    }
    this.#maintenance.schedule();
  }

  async #wait(wanted: Demand): Promise<void> {
    this.#isWaiting = true;
    this.#pending += wanted.count;
    this.#host.emptied();
    const request = this.#request(wanted, true);
    const woken = await this.#waiter.wait(request);
    this.#isWaiting = false;
    this.#pending -= wanted.count;
    if (woken) this.#receive(woken.reply, request, woken.sentAt, woken.marker);
    else {
      // The wait may have popped the marker of a job: the next call takes that job.
      this.#maintenance.mustLook = true;
      this.#isDrained = false;
    }
    this.#takes.settled(request.takeId);
    this.#proceed();
  }

  get #isClockKnown(): boolean {
    return this.#commands.clock.earliest(0) !== undefined;
  }

  #receive(reply: StepReply, request: StepRequest, sentAt: number, marker: Marker | undefined): void {
    const takenAt = Math.floor(reply.nowMicros / 1_000);
    // The step behind a wait ran at an unknown instant since it was sent. If a reconnect discarded the bounds of the server's clock, its
    // time gives none.
    const isTimed = !request.flags.includes("w") || this.#isClockKnown;
    if (reply.nowMicros > 0) {
      if (isTimed) {
        this.#commands.clock.observe(sentAt, takenAt);
        this.#maintenance.timed();
      } else this.#maintenance.mustLook = true;
    }
    const isLimited = (this.#isLimited = reply.nextStart !== undefined);
    if (request.count > 0) this.#isDrained = reply.entries.length < request.count && !reply.isMore;
    if (reply.reclaimed.length > 0) {
      this.leases.loseAll(new Set(reply.reclaimed.map(({ member }) => member)));
      this.#host.reclaimed(reply.reclaimed);
    }
    if (reply.droppedYoung > 0) this.#host.dropped(reply.droppedYoung);
    if (this.#isTaking) {
      this.#timekeeper.observe(reply, marker);
      this.#timekeeper.observeStart(reply, request.count > 0);
    }
    if (reply.isStopped) this.#host.stopped();
    if (reply.entries.length === 0) return;
    if (request.flags.includes("s")) this.#maintenance.announced();
    const { takeId, leaseMs } = request;
    const leaseUntil = this.leases.endOf(takenAt, sentAt);
    const take = { takeId, takenAt, leaseUntil, receivedAt: performance.now(), isLimited, commands: this.#commands };
    // These leases may be as old as the wait. The jobs are handed back and taken again.
    if (!isTimed && take.leaseUntil - take.receivedAt < leaseMs / 2) return this.#takes.lose(takeId);
    const jobs = jobsOf(reply, take, this.#received);
    this.#received += jobs.length;
    this.#room.received(reply.blobs, request.flags.includes("w") ? 0 : take.receivedAt - sentAt);
    this.leases.hold(jobs);
    if (this.#isTaking) this.#host.deliver(jobs);
    else void this.handBack(jobs);
  }

  #fail(error: KitError): void {
    this.#maintenance.mustLook = true;
    this.#commands.outage.failed("taking", error);
    if (this.#isClosed) return;
    if (this.#failures === 0) setImmediate(() => this.#host.emptied());
    if (this.#isResting) return;
    this.#isResting = true;
    void this.#commands.rest(backoffMs(++this.#failures + 1, 20, 2_000)).then(() => {
      this.#isResting = false;
      this.pump();
    });
  }
}
