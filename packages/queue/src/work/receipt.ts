import { hasFlag } from "../job/words.js";
import type { QueueCommands, StepRequest } from "../store/commands.js";
import type { Reclaimed, StepReply } from "../store/scripts/index.js";
import type { LostLeases } from "../store/scripts/lost.js";
import type { EndedJobs } from "./ended.js";
import type { Ending } from "./endings.js";
import type { Recorder } from "./history.js";
import type { JobLeases } from "./leases.js";
import type { Maintenance } from "./maintenance.js";
import type { Room } from "./room.js";
import { jobsOf, type TakenJob } from "./taken.js";
import type { Takes } from "./takes.js";
import type { Timekeeper } from "./timekeeper.js";
import type { Marker } from "./waiter.js";

/** Receives what a reply says, other than new jobs. */
export interface ReceiptHost {
  /** The server has ended the job, or if not accepted, has refused because it had taken the lease back. */
  ended(ending: Ending, isAccepted: boolean): void;
  /** No job of the queue can start now. */
  stopped(): void;
  /** The job was cancelled. If its end was sent, the server refused the end. */
  cancelled(job: TakenJob): void;
  reclaimed(leases: readonly Reclaimed[]): void;
  /** Dead letters of the last hour were dropped to make room. */
  dropped(count: number): void;
}

const none: readonly TakenJob[] = [];

/** Applies the replies to a worker's steps. */
export class Receipt {
  readonly #commands: QueueCommands;
  readonly #leases: JobLeases;
  readonly #ended: EndedJobs;
  readonly #takes: Takes;
  readonly #room: Room;
  readonly #maintenance: Maintenance;
  readonly #timekeeper: Timekeeper;
  readonly #host: ReceiptHost;
  readonly #recorder: Recorder | undefined;
  #received = 0;
  /** The last take found fewer jobs than it requested. */
  isDrained = false;
  /** At the last reply the queue had limits. */
  isLimited = false;

  constructor(
    commands: QueueCommands,
    leases: JobLeases,
    ended: EndedJobs,
    takes: Takes,
    room: Room,
    maintenance: Maintenance,
    timekeeper: Timekeeper,
    host: ReceiptHost,
    recorder: Recorder | undefined,
  ) {
    this.#commands = commands;
    this.#leases = leases;
    this.#ended = ended;
    this.#takes = takes;
    this.#room = room;
    this.#maintenance = maintenance;
    this.#timekeeper = timekeeper;
    this.#host = host;
    this.#recorder = recorder;
  }

  /** The server has ended these jobs, except those that it refused. */
  confirm(endings: readonly Ending[], { refused, cancelled }: Pick<StepReply, "refused" | "cancelled">): void {
    const isRefused = refused.length === 0 ? undefined : new Set(refused);
    if (isRefused) void this.#recorder?.forget(this.#commands, refused);
    this.#ended.confirm(endings);
    for (const ending of endings) {
      const { job } = ending;
      job.state = "ended";
      this.#leases.release(job);
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

  /** Another call than a step ends the job. Rejects as `send` does, which repeats that call until the server has replied. */
  async endBy(ending: Ending, send: () => Promise<LostLeases>): Promise<void> {
    const { lost, cancelled } = await this.#ended.by(ending, send);
    this.confirm([ending], { refused: lost, cancelled });
  }

  /** Returns the jobs that the worker has now. `marker`: woke the worker for this step. */
  receive(
    reply: StepReply,
    request: StepRequest,
    sentAt: number,
    marker: Marker | undefined,
    isTaking: boolean,
  ): readonly TakenJob[] {
    const takenAt = Math.floor(reply.nowMicros / 1_000);
    const isWoken = hasFlag(request.flags, "woken");
    // The step after a wait ran at an unknown instant after it was sent. If a reconnect discarded the bounds of the server's clock, its
    // time gives none.
    const isTimed = !isWoken || this.#commands.isClockKnown;
    if (reply.nowMicros > 0) {
      if (isTimed) {
        this.#commands.clock.observe(sentAt, takenAt);
        this.#maintenance.timed();
      } else this.#maintenance.mustLook = true;
    }
    this.#leases.presence?.stepped(request.count > 0);
    const isLimited = (this.isLimited = reply.nextStart !== undefined);
    if (request.count > 0) this.isDrained = reply.entries.length < request.count && !reply.isMore;
    if (isTaking) {
      this.#timekeeper.observe(reply, marker);
      this.#timekeeper.observeStart(reply, request.count > 0);
    }
    if (reply.reclaimed.length > 0) {
      this.#leases.loseAll(new Set(reply.reclaimed.map(({ member }) => member)));
      this.#host.reclaimed(reply.reclaimed);
    }
    if (reply.droppedYoung > 0) this.#host.dropped(reply.droppedYoung);
    if (reply.isStopped) this.#host.stopped();
    if (reply.entries.length === 0) return none;
    if (hasFlag(request.flags, "announce")) this.#maintenance.announced();
    const { takeId, leaseMs } = request;
    const leaseUntil = this.#leases.endOf(takenAt, sentAt);
    const take = { takeId, takenAt, leaseUntil, receivedAt: performance.now(), isLimited, commands: this.#commands };
    // These leases may be as old as the wait. The jobs are handed back and taken again.
    if (!isTimed && take.leaseUntil - take.receivedAt < leaseMs / 2) {
      this.#takes.lose(takeId);
      return none;
    }
    const jobs = jobsOf(reply, take, this.#received);
    this.#received += jobs.length;
    this.#room.received(reply.blobs, isWoken ? 0 : take.receivedAt - sentAt);
    this.#leases.hold(jobs);
    return jobs;
  }
}
