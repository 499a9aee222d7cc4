import { type KitError, KitUnavailableError, KitUnknownOutcomeError } from "@kit/core";
import { addressOf, type ClientContext, pause } from "@kit/core/toolkit";
import type { LeaseRequest, ResolvedAcquire } from "@kit/core/leasing";
import { SameServerError } from "./errors.js";
import * as scripts from "./scripts/index.js";
import { failedVote, isSilence, type Vote } from "./votes.js";

/** How long a probe of an unavailable server waits for an answer, and the pause before the next probe. */
const probeMs = 1_000;
const probePauseMs = 100;

/** The parts that the servers of one quorum share. */
export interface Servers {
  /** A server that started less than this many milliseconds ago abstains. */
  readonly guardMs: number;
  readonly keyOf: (name: string) => string;
  /** Aborts when the object has been closed. */
  readonly signal: AbortSignal;
  /** The server that was last seen under a run id. */
  readonly byRunId: Map<string, QuorumServer>;
  /** A server's age is unknown, because the user may not run INFO. */
  readonly unguarded: (server: string) => void;
  readonly onError: (error: KitError) => void;
}

/** Whether the lease was there; or the vote of a server that could not report it. */
export type Removal = boolean | Vote;

type Clock = ReturnType<ClientContext["clockOf"]>;

const ownerOf = ({ token, resolved: { holder } }: LeaseRequest): string => `${token}|${holder}`;

/**
 * One server of a quorum. Its vote counts only on a connection on which it has reported its identity and age. After each lost connection
 * another server may answer, or the same one without its data.
 */
export class QuorumServer {
  readonly context: ClientContext;
  readonly address: string;
  /** Its place in the list of clients, from 0. */
  readonly position: number;
  readonly #shared: Servers;
  /** The connection epoch in which the server was old enough. */
  #knownEpoch = -1;
  #runId: string | undefined;
  #isUnguarded = false;
  /** When it stops abstaining in that epoch, on our monotonic clock. */
  #young = { epoch: -1, until: 0 };
  /** Set while another client leads to the same server. */
  #fault: SameServerError | undefined;
  /** The error of a command without an answer, until the server answers again. */
  #away: KitError | undefined;

  constructor(context: ClientContext, position: number, shared: Servers) {
    this.context = context;
    this.position = position;
    this.address = addressOf(context.client);
    this.#shared = shared;
  }

  /** Whether another client was last seen to lead to the same server. */
  get isDouble(): boolean {
    return this.#fault !== undefined;
  }

  /** Whether it counts as unavailable. */
  get isAway(): boolean {
    return this.#away !== undefined;
  }

  /** The server has a connection again: the next command shows whether it answers. */
  connected(): void {
    this.#away = undefined;
  }

  /** Asks for its vote on a new lease. Never rejects. */
  acquire(
    request: LeaseRequest<ResolvedAcquire>,
    leaseMs: number,
    deadlineMs: number,
    isWanted: () => boolean,
  ): Promise<Vote> {
    const server = this.address;
    const lease = this.#shared.keyOf(request.name);
    const { guardMs } = this.#shared;
    const { epoch, until } = this.#young;
    if (epoch === this.context.executor.connectionEpoch) {
      const msLeft = until - performance.now();
      if (msLeft > 0) return Promise.resolve({ server, vote: "abstained", msLeft });
    }
    return this.#counted<scripts.AcquireReply>(
      lease,
      (isAsked, clock, sentAt) => {
        const notAfter = clock.serverMsAt(sentAt + deadlineMs) ?? 0;
        const args = { owner: ownerOf(request), terms: { leaseMs, notAfter, guardMs, isAsked } };
        return scripts.acquire.run(this.context, { lease }, args, { deadlineMs, op: request.token, isWanted });
      },
      (reply, clock) => {
        if (reply.state === "granted") return { server, vote: "granted" };
        // No other caller has the token, and this client has sent it once on this connection. So another client leads to the same server. If
        // run ids are known, that client's vote has the error.
        if (reply.state === "repeated" && this.#runId === undefined) throw this.#doubled([this]);
        if (reply.state === "held") return { server, vote: "held", holder: reply.by.holder, msLeft: reply.by.msLeft };
        if (reply.state === "abstained") return { server, vote: "abstained", msLeft: reply.msLeft };
        // Our estimate of the server's clock was wrong. Without an estimate, the server refuses nothing as late.
        if (reply.state === "late") clock.reset();
        return { server, vote: "no-answer" };
      },
    );
  }

  /**
   * Extends a lease, or looks it up with a `termMs` of 0. If the server has lost the lease, it is rewritten, but only while it is certainly
   * held: until `heldUntil`. A later answer does not count as a grant. Never rejects.
   */
  async renew(
    request: LeaseRequest<ResolvedAcquire>,
    { termMs, heldUntil }: { readonly termMs: number; readonly heldUntil: number },
    deadlineMs: number,
    isWanted: () => boolean,
  ): Promise<Vote> {
    const server = this.address;
    const lease = this.#shared.keyOf(request.name);
    const mayRefill = (): boolean => termMs > 0 && performance.now() < heldUntil;
    let hasClock = true;
    const ask = (): Promise<Vote> =>
      this.#counted<scripts.RenewReply>(
        lease,
        (isAsked, clock) => {
          const until = mayRefill() ? clock.serverMsAt(heldUntil) : 0;
          hasClock = until !== undefined;
          const args = { owner: ownerOf(request), terms: { termMs, refillUntil: until ?? 0, isAsked } };
          return scripts.renew.run(this.context, { lease }, args, { deadlineMs, op: request.token, isWanted });
        },
        (reply) => {
          if (reply.state === "taken")
            return { server, vote: "held", holder: reply.by.holder, msLeft: reply.by.msLeft };
          // After our lease ended, another caller may have held and released the lock before this refill.
          if (reply.state === "refilled" && !mayRefill()) return { server, vote: "no-answer" };
          return { server, vote: reply.state === "gone" ? "free" : "granted" };
        },
      );
    const vote = await ask();
    // The first answer on a connection shows the server's clock.
    return vote.vote === "free" && !hasClock && mayRefill() && isWanted() ? await ask() : vote;
  }

  /** Removes a lease. An unavailable server is not asked. Never rejects; calls `unknown` if the lease may be left. */
  async release(request: LeaseRequest<ResolvedAcquire>, deadlineMs: number, unknown: () => void): Promise<Removal> {
    try {
      if (this.#away) throw this.#away;
      return await this.remove(request, deadlineMs);
    } catch (error) {
      this.#failed(this.#shared.keyOf(request.name), error);
      unknown();
      return failedVote(this.address, error);
    }
  }

  /** Removes a lease, even on a server that counts as unavailable. Rejects with the script's errors. */
  remove(request: LeaseRequest<ResolvedAcquire>, deadlineMs: number, signal?: AbortSignal): Promise<boolean> {
    const lease = this.#shared.keyOf(request.name);
    const args = { owner: ownerOf(request) };
    return scripts.release.run(this.context, { lease }, args, { deadlineMs, op: request.token, signal });
  }

  /** Reads a lease, or null if there is none. Rejects with the script's errors. */
  inspect(name: string, deadlineMs: number): Promise<scripts.Stored | null> {
    return scripts.inspect.run(this.context, { lease: this.#shared.keyOf(name) }, {}, { deadlineMs });
  }

  /**
   * The vote in the reply to a command. It counts only if the server is known: the reply came over the connection on which the server
   * reported its identity. Never rejects.
   */
  async #counted<Reply extends scripts.Voted>(
    lease: string,
    run: (isAsked: 0 | 1, clock: Clock, sentAt: number) => Promise<Reply>,
    voteOf: (reply: Reply, clock: Clock) => Vote,
  ): Promise<Vote> {
    const { executor } = this.context;
    const epoch = executor.connectionEpoch;
    const clock = this.context.clockOf(lease);
    const sentAt = performance.now();
    try {
      if (this.#away) throw this.#away;
      const reply = await run(this.#knownEpoch === epoch ? 0 : 1, clock, sentAt);
      if (executor.connectionEpoch !== epoch) return this.#lostBefore();
      clock.observe(sentAt, reply.now);
      if (reply.server) this.#saw(reply.server, epoch);
      return voteOf(reply, clock);
    } catch (error) {
      this.#failed(lease, error);
      return failedVote(this.address, error);
    }
  }

  #saw({ runId, ageMs }: scripts.ServerFacts, epoch: number): void {
    const { byRunId, guardMs, unguarded } = this.#shared;
    if (runId === undefined && !this.#isUnguarded) {
      this.#isUnguarded = true;
      unguarded(this.address);
    }
    this.#runId = runId;
    const other = runId === undefined ? undefined : byRunId.get(runId);
    if (other && other !== this && other.#runId === runId)
      throw this.#doubled([other, this].sort((one, another) => one.position - another.position));
    this.#fault = undefined;
    if (runId !== undefined) byRunId.set(runId, this);
    if (ageMs >= guardMs) this.#knownEpoch = epoch;
    else this.#young = { epoch, until: performance.now() + guardMs - ageMs };
  }

  /** Until the server reconnects and reports its identity, its votes do not count. */
  #doubled(servers: readonly QuorumServer[]): SameServerError {
    const fault = new SameServerError(
      servers.map(({ address }) => address),
      servers.map(({ position }) => position),
    );
    if (!this.#fault) this.#shared.onError(fault);
    this.#fault = fault;
    return fault;
  }

  /** It may be another server by now, or the same one without its data. */
  #lostBefore(): Vote {
    const message = `The connection to ${this.address} was lost before the vote`;
    return failedVote(this.address, new KitUnknownOutcomeError(message, undefined));
  }

  /** A server that does not answer counts as unavailable until it does. */
  #failed(lease: string, error: unknown): void {
    if (!isSilence(error) || this.#away) return;
    this.#away = new KitUnavailableError(`Redis at ${this.address} did not answer`, this.address, error);
    void this.#probe(lease);
  }

  async #probe(lease: string): Promise<void> {
    const { signal } = this.#shared;
    try {
      for (;;) {
        const isSilent = await scripts.inspect
          .run(this.context, { lease }, {}, { deadlineMs: probeMs, signal })
          .then(() => false, isSilence);
        if (!isSilent || !this.#away) break;
        await pause(probePauseMs, signal);
      }
    } catch {
      // The object was closed.
    }
    this.#away = undefined;
  }
}
