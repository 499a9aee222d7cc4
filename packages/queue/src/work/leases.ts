import { asKitError, expiryOf, lowerBoundMs } from "@kit/core/toolkit";
import type { QueueCommands } from "../store/commands.js";
import type { LeaseMirror, MirroredLeases } from "../thread/mirror.js";
import type { TakenJob } from "./taken.js";
import { heartbeat, maxEnded } from "../store/scripts/index.js";
import type { Presence } from "../presence/index.js";

/** The share of a lease between two heartbeats. */
const heartbeatShare = 0.3;
/** Leases with less than this share left are renewed. The others can wait for the next heartbeat. */
const renewShare = 0.75;

interface LeaseEvents {
  /** By our own clock the lease may have ended, or the server replied that it has ended or that the job was cancelled. */
  readonly lost: (job: TakenJob, isCancelled: boolean) => void;
  /** The lease may have ended, since the server did not answer. It is renewed when the server answers again, unless another worker has it. */
  readonly cutOff: (job: TakenJob) => void;
}

/**
 * The leases of one worker. One heartbeat renews all of them, on core's scheduler, which detects that the machine slept. A lease also ends
 * by our own clock, because a silent server reports no loss.
 */
export class JobLeases implements MirroredLeases {
  renewAt: number = Infinity;
  deadlineAt: number = Infinity;
  heapIndex = -1;
  /** An array in which each job has its index. A Set would keep removed jobs alive until V8's next full collection. */
  readonly #held: TakenJob[] = [];
  readonly #commands: QueueCommands;
  readonly #expiry: ReturnType<typeof expiryOf>;
  readonly #leaseMs: number;
  readonly #events: LeaseEvents;
  /** The last heartbeat had no answer. */
  #isCutOff = false;
  #isClosed = false;
  #mirror: LeaseMirror | undefined;
  /** Once the worker shows itself. */
  presence: Presence | undefined;

  constructor(commands: QueueCommands, leaseMs: number, events: LeaseEvents) {
    this.#commands = commands;
    this.#expiry = expiryOf(commands.context);
    this.#leaseMs = leaseMs;
    this.#events = events;
  }

  get group(): string {
    return "";
  }

  get renewSlackMs(): number {
    return 0;
  }

  get jobs(): readonly TakenJob[] {
    return this.#held;
  }

  /** The lower bound, on our clock, of the end of a lease that the server granted at `serverMs`. `sentAt`: when the call was sent. */
  endOf(serverMs: number, sentAt: number): number {
    return this.#commands.clock.earliest(serverMs + this.#leaseMs) ?? sentAt + lowerBoundMs(this.#leaseMs);
  }

  /** A thread renews the leases while the main loop is blocked. */
  mirrorTo(mirror: LeaseMirror | undefined): void {
    if (this.#isClosed) mirror?.close();
    else this.#mirror = mirror;
  }

  get members(): string {
    return membersOf(this.#held);
  }

  /** Whether the lease of a job may have ended, by our own clock. In that case it is lost. */
  isOver(job: TakenJob): boolean {
    if (performance.now() < job.leaseUntil) return false;
    this.#mirror?.fetch();
    if (performance.now() < job.leaseUntil) return false;
    this.#lapsed(job);
    return true;
  }

  hold(jobs: readonly TakenJob[]): void {
    const [first] = jobs;
    if (!first) return;
    this.#mirror?.held(membersOf(jobs));
    for (const job of jobs) job.leaseIndex = this.#held.push(job) - 1;
    if (this.heapIndex >= 0) {
      if (first.leaseUntil < this.deadlineAt) this.#schedule(this.renewAt, first.leaseUntil);
    } else this.#schedule(performance.now() + this.#heartbeatMs, first.leaseUntil);
  }

  release(job: TakenJob): void {
    this.#remove(job);
    if (this.#held.length > 0 || this.heapIndex < 0) return;
    this.#commands.outage.ended("renewing");
    this.#expiry.remove(this);
  }

  /** The job of this lease may have been cancelled. The reply to a heartbeat decides. */
  look(member: string): void {
    const job = this.#held.find((one) => one.member === member);
    if (job) void this.#renew([job]);
  }

  /** The server replied that these leases have ended. */
  loseAll(members: ReadonlySet<string>): void {
    for (const job of [...this.#held]) if (members.has(job.member)) this.lose(job);
  }

  /** The thread has renewed some leases until then, and found that the jobs of others were cancelled. */
  settle(renewed: ReadonlySet<string>, cancelled: ReadonlySet<string>, until: number): void {
    for (const job of [...this.#held])
      if (cancelled.has(job.member)) this.refused(job, true);
      else if (renewed.has(job.member)) job.leaseUntil = Math.max(job.leaseUntil, until);
  }

  close(): void {
    this.#isClosed = true;
    this.#mirror?.close();
    // The reply to a heartbeat under way no longer changes them.
    for (const job of this.#held.splice(0)) job.leaseIndex = -1;
    this.#expiry.remove(this);
  }

  renewAll(): void {
    void this.#heartbeat();
  }

  lapse(): void {
    this.#mirror?.fetch();
    const now = performance.now();
    let earliest = Infinity;
    for (const job of [...this.#held])
      if (job.leaseUntil > now) earliest = Math.min(earliest, job.leaseUntil);
      else this.#lapsed(job);
    if (this.#held.length === 0) this.#commands.outage.ended("renewing");
    else this.#schedule(Math.min(this.renewAt, now + this.#heartbeatMs), earliest);
  }

  get #heartbeatMs(): number {
    return this.#leaseMs * heartbeatShare;
  }

  async #heartbeat(): Promise<void> {
    const threshold = performance.now() + this.#leaseMs * renewShare;
    const due = this.#held.filter((job) => job.leaseUntil <= threshold);
    let isFailed = false;
    for (let start = 0; start < due.length && !isFailed; start += maxEnded)
      isFailed = !(await this.#renew(due.slice(start, start + maxEnded), start === 0 ? this.presence : undefined));
    // All leases were lost: the next job makes a new schedule.
    if (this.#isClosed || this.#held.length === 0) {
      this.#commands.outage.ended("renewing");
      return this.#expiry.remove(this);
    }
    const now = performance.now();
    let earliest = Infinity;
    for (const { leaseUntil } of this.#held) if (leaseUntil > now) earliest = Math.min(earliest, leaseUntil);
    this.#schedule(now + (isFailed ? this.#leaseMs / 20 : this.#heartbeatMs), earliest);
  }

  async #renew(jobs: readonly TakenJob[], presence?: Presence): Promise<boolean> {
    const sentAt = performance.now();
    try {
      const args = { leaseMs: this.#leaseMs, members: membersOf(jobs), record: presence?.record() ?? "" };
      const { now, lost, cancelled } = await this.#commands.run(heartbeat, args, this.#heartbeatMs);
      this.#commands.outage.worked("renewing");
      this.#isCutOff = false;
      presence?.shown();
      this.#commands.clock.observe(sentAt, now);
      const until = this.endOf(now, sentAt);
      const gone = new Set(lost);
      for (const job of jobs)
        if (gone.has(job.member)) this.refused(job, cancelled.includes(job.member));
        else job.leaseUntil = this.#mirror ? Math.max(job.leaseUntil, until) : until;
      return true;
    } catch (error) {
      this.#isCutOff = true;
      this.#commands.outage.failed("renewing", asKitError(error, "The heartbeat"));
      return false;
    }
  }

  /** By our own clock its lease may have ended. If this process was paused, it was silent itself: the server counts that as a crash. */
  #lapsed(job: TakenJob): void {
    if (this.#isCutOff) this.#events.cutOff(job);
    else this.lose(job);
  }

  /** The lease has ended, or may have. It is no longer renewed. */
  lose(job: TakenJob, isCancelled = false): void {
    if (this.#remove(job)) this.#events.lost(job, isCancelled);
  }

  /** A heartbeat did not renew it. If the end of the job was sent before the heartbeat, the reply to the end decides. */
  refused(job: TakenJob, isCancelled: boolean): void {
    if (job.state !== "ending") this.lose(job, isCancelled);
  }

  #remove(job: TakenJob): boolean {
    const index = job.leaseIndex;
    if (index < 0) return false;
    job.leaseIndex = -1;
    const last = this.#held.pop();
    if (last && last !== job) {
      this.#held[index] = last;
      last.leaseIndex = index;
    }
    return true;
  }

  #schedule(renewAt: number, deadlineAt: number): void {
    this.renewAt = renewAt;
    this.deadlineAt = deadlineAt;
    if (this.#isClosed) return;
    if (this.heapIndex < 0) this.#expiry.add(this);
    else this.#expiry.changed(this);
  }
}

const membersOf = (jobs: readonly TakenJob[]): string => jobs.map(({ member }) => member).join("\n");
