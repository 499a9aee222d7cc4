import type { KitError } from "@kit/core";
import { asKitError, backoffMs, type Deadline } from "@kit/core/toolkit";
import type { QueueCommands, StepRequest } from "../store/commands.js";
import { isUnknown } from "../store/wall.js";
import type { QueueSettings } from "../store/options.js";
import type { WorkSettings } from "./options.js";
import { maxEnded, type StepReply } from "../store/scripts/index.js";
import type { LostLeases } from "../store/scripts/lost.js";
import { Condition } from "./condition.js";
import { EndedJobs } from "./ended.js";
import { type Ending, operandsOf } from "./endings.js";
import type { Recorder } from "./history.js";
import { JobLeases } from "./leases.js";
import { Maintenance } from "./maintenance.js";
import { Receipt, type ReceiptHost } from "./receipt.js";
import { Returns } from "./returns.js";
import { Room } from "./room.js";
import type { TakenJob } from "./taken.js";
import { Takes } from "./takes.js";
import { Timekeeper } from "./timekeeper.js";
import { type Marker, Waiter, type Wakeups } from "./waiter.js";

/** How many jobs a worker wants. */
export interface Demand {
  readonly count: number;
  /** How many of them have a free handler. The others are taken ahead, only while no worker is idle. */
  readonly sure: number;
}

/** The part of the worker that the fetcher uses. */
export interface FetcherHost extends ReceiptHost {
  /** How many jobs to take. Calls in progress can bring `pending` more. This call ends `ending` jobs. */
  demand(pending: number, ending: number): Demand;
  deliver(jobs: readonly TakenJob[]): void;
  lost(job: TakenJob): void;
  /** Of a worker that waits on the same connection as others. */
  readonly wakeups: Wakeups | undefined;
  /** The queue is empty or the server cannot be reached: the fetcher waits. */
  emptied(): void;
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
  readonly #receipt: Receipt;
  #inFlight = 0;
  /** How many jobs the calls in progress can bring, including the waiting call. */
  #pending = 0;
  #isTaking = false;
  /** The last take found nothing, and the fetcher waits to be woken. Only the fetcher sets it. */
  isWaiting = false;
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
    this.leases = new JobLeases(commands, leaseMs, {
      lost: (job, isCancelled) => (isCancelled ? host.cancelled(job) : host.lost(job)),
      cutOff: (job) => {
        if (job.state === "held") void this.handBack([job]);
        // The reply to the job's end decides.
        else if (job.state !== "ending") host.lost(job);
      },
    });
    this.#returns = new Returns(commands, this.leases, () => this.#lookAtRest());
    this.#room = new Room(queue.maxPayloadBytes, queue.deadlineMs);
    this.#takes = new Takes(commands, this.#room, () => this.#proceed());
    this.#maintenance = new Maintenance(leaseMs, () => this.pump());
    this.#timekeeper = new Timekeeper(leaseMs, (makesContact) => this.#look(makesContact));
    this.#waiter = new Waiter(commands, (takeId) => this.#takes.lose(takeId), host.wakeups);
    this.#receipt = new Receipt(
      commands,
      this.leases,
      this.#ended,
      this.#takes,
      this.#room,
      this.#maintenance,
      this.#timekeeper,
      host,
      this.#recorder,
    );
  }

  /** The start of its take ids. */
  get workerId(): string {
    return this.#takes.worker;
  }

  /** The fetcher takes jobs, and the worker wants some. */
  get isWanting(): boolean {
    return this.#isTaking && this.#host.demand(0, 0).sure > 0;
  }

  /** Ended jobs that the server has not confirmed yet. */
  get unconfirmed(): number {
    return this.#ended.unconfirmed;
  }

  /** The last call failed: the server cannot be reached, or refuses. */
  get isFailing(): boolean {
    return this.#failures > 0;
  }

  /** Starts taking jobs. Before this call, and after `stopTaking()`, `pump()` takes none. */
  start(): void {
    this.#isTaking = true;
    this.#receipt.isDrained = false;
    this.#maintenance.mustLook = this.#maintenance.mustContact = true;
    this.#returns.keepsOrder = false;
    this.#waiter.open();
    this.pump();
  }

  /** The server ends the job with the next step. */
  end(ending: Ending): void {
    this.#ended.add(ending);
  }

  /** Another call than the next step ends the job: `send` repeats it until the server has replied. `settle()` waits for this. */
  endBy(ending: Ending, send: () => Promise<LostLeases>): Promise<void> {
    return this.#receipt.endBy(ending, send).finally(() => this.#proceed());
  }

  /** Returns jobs to the front of the queue, in the order in which they were taken. `settle()` waits for this. */
  handBack(jobs: readonly TakenJob[]): Promise<void> {
    return this.#returns.handBack(jobs, this.#receipt.isLimited);
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
      const mayTake = this.#isTaking && !this.#receipt.isDrained && !this.isWaiting && this.#takes.hasFree;
      const wanted = mayTake ? this.#wanted(ending) : nothing;
      const { mustLook, completed } = this.#maintenance;
      const isOwed = this.#isTaking ? mustLook : completed > 0 && this.#takes.hasFree;
      if (wanted.count === 0 && ending === 0 && !isOwed) break;
      void this.#call(wanted);
    }
    if (this.#isTaking && this.#receipt.isDrained && !this.isWaiting && this.#pending === 0 && this.#takes.hasFree) {
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
    return this.#pending + this.#returns.pending === 0 && !this.isWaiting && !this.#takes.hasLost;
  }

  #lookAtRest(): void {
    this.#rest.look();
    this.stopped.look();
  }

  #wanted(ending: number): Demand {
    const { count, sure } = this.#host.demand(this.#pending, ending);
    return { count: Math.min(this.#receipt.isLimited ? sure : count, maxTaken), sure: Math.min(sure, maxTaken) };
  }

  #request({ count, sure }: Demand, isWoken: boolean): StepRequest {
    const startsWork = count > 0 && this.leases.jobs.length === 0;
    const flags = this.#maintenance.flags(isWoken, this.isWaiting, startsWork, this.#commands.isClockKnown);
    // If the take cannot be recorded, the server would not recognise a repeat. The step after a wait may run much later, or never.
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
      this.#receipt.confirm(endings, outcome);
      this.#receive(outcome, request, sentAt, undefined);
      // Only now, because the last leases may have ended. While there is work, no wait shows that connections work again.
      if (!this.#receipt.isDrained) this.#commands.outage.connected("waiting");
      this.#commands.outage.worked("taking");
    }
    this.#takes.settled(request.takeId);
    this.#proceed();
  }

  #proceed(): void {
    this.#lookAtRest();
    this.pump();
  }

  #look(makesContact: boolean): void {
    this.#maintenance.mustLook = true;
    this.#maintenance.mustContact ||= makesContact;
    this.pump();
  }

  async #wait(wanted: Demand): Promise<void> {
    this.isWaiting = true;
    this.#pending += wanted.count;
    this.#host.emptied();
    const request = this.#request(wanted, true);
    const woken = await this.#waiter.wait(request);
    this.isWaiting = false;
    this.#pending -= wanted.count;
    if (woken) this.#receive(woken.reply, request, woken.sentAt, woken.marker);
    else {
      // The wait may have popped the marker of a job: the next call takes that job.
      this.#maintenance.mustLook = true;
      this.#receipt.isDrained = false;
    }
    this.#takes.settled(request.takeId);
    this.#proceed();
  }

  #receive(reply: StepReply, request: StepRequest, sentAt: number, marker: Marker | undefined): void {
    const jobs = this.#receipt.receive(reply, request, sentAt, marker, this.#isTaking);
    if (jobs.length === 0) return;
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
