import type { KitError } from "@kit/core";
import type {
  LeaseRequest,
  LeaseStore,
  LossReason,
  ReleaseReply,
  Renewal,
  RenewState,
  ResolvedAcquire,
} from "@kit/core/leasing";
import { asKitError, newToken, type ObjectLife, OutageReporter } from "@kit/core/toolkit";
import { LockLostError } from "../index.js";
import { QuorumError } from "./errors.js";
import { nodeTimeoutOf, type QuorumSettings } from "./options.js";
import { Removals } from "./removals.js";
import type { QuorumServer, Removal } from "./server.js";
import { countOf, isRefusal, poll, quorumOf, type Vote } from "./votes.js";

type Request = LeaseRequest<ResolvedAcquire>;

/** The leases of one quorum lock object, on all of its servers. */
export class QuorumStore implements LeaseStore<ResolvedAcquire> {
  readonly kind: LeaseStore<ResolvedAcquire>["kind"];
  readonly settings: QuorumSettings;
  readonly life: ObjectLife;
  readonly outage: OutageReporter;
  readonly servers: readonly QuorumServer[];
  readonly quorum: number;
  readonly #removals: ReadonlyMap<QuorumServer, Removals>;
  /** By token: how many renewals are in flight, and whether the lease has ended. After its end no renewal is sent. */
  readonly #renewing = new Map<string, { underWay: number; isOver: boolean }>();

  constructor(
    life: ObjectLife,
    servers: readonly QuorumServer[],
    settings: QuorumSettings,
    keyOf: (name: string) => string,
    onError: (error: KitError) => void,
  ) {
    this.life = life;
    this.servers = servers;
    this.settings = settings;
    this.quorum = quorumOf(servers.length);
    this.#removals = new Map(servers.map((server) => [server, new Removals(server, life, settings.deadlineMs)]));
    this.outage = new OutageReporter(onError);
    this.kind = {
      what: "quorum-lock",
      id: newToken(),
      keyOf,
      lostError: (name: string, reason: LossReason) => new LockLostError(name, reason, ""),
    };
  }

  get connectionEpoch(): number {
    return this.servers.reduce((sum, { context }) => sum + context.executor.connectionEpoch, 0);
  }

  /** Each lease is renewed separately, because each has its own votes. */
  groupOf(key: string): string {
    return key;
  }

  errorOf(error: unknown): KitError {
    return asKitError(error, "A background call of a quorum lock");
  }

  onError(error: unknown): void {
    this.outage.report(this.errorOf(error));
  }

  /** How long one server has for its vote. */
  limitOf(leaseMs: number): number {
    return nodeTimeoutOf(this.settings, leaseMs);
  }

  /** One vote per server: a missing vote becomes `no-answer`. */
  completed(votes: readonly (Vote | undefined)[]): readonly Vote[] {
    return this.servers.map(({ address: server }, index) => votes[index] ?? { server, vote: "no-answer" });
  }

  #votesOf(removals: readonly (Removal | undefined)[]): readonly Vote[] {
    const free = ({ address: server }: QuorumServer): Vote => ({ server, vote: "free" });
    return this.completed(
      this.servers.map((server, index) => {
        const removal = removals[index];
        return typeof removal === "boolean" ? free(server) : removal;
      }),
    );
  }

  renew(renewals: readonly Renewal<ResolvedAcquire>[], deadlineMs: number): Promise<readonly RenewState[]> {
    return Promise.all(renewals.map((renewal) => this.#renew(renewal, deadlineMs)));
  }

  async #renew(renewal: Renewal<ResolvedAcquire>, deadlineMs: number): Promise<RenewState> {
    const { request, termMs } = renewal;
    const limitMs = Math.min(deadlineMs, this.limitOf(termMs || request.resolved.leaseMs));
    const state = await poll(
      this.servers,
      (server) => this.#renewOn(server, renewal, limitMs),
      (votes, isOver): RenewState | undefined => {
        if (countOf(votes, ({ vote }) => vote === "granted") >= this.quorum) return "extended";
        if (this.servers.length - countOf(votes, isRefusal) < this.quorum)
          return votes.some((vote) => vote?.vote === "held") ? "taken" : "gone";
        if (!isOver) return undefined;
        throw new QuorumError(request.name, "was not renewed", this.quorum, this.completed(votes));
      },
    );
    this.outage.worked();
    // Leftovers on the other servers would only delay the next holder.
    if (state !== "extended") this.cancel(request);
    return state;
  }

  async #renewOn(server: QuorumServer, renewal: Renewal<ResolvedAcquire>, limitMs: number): Promise<Vote> {
    const { token } = renewal.request;
    const renewing = this.#renewing.get(token) ?? { underWay: 0, isOver: false };
    this.#renewing.set(token, renewing);
    renewing.underWay++;
    const vote = await server.renew(renewal.request, renewal, limitMs, () => !renewing.isOver);
    if (--renewing.underWay === 0) this.#renewing.delete(token);
    return vote;
  }

  async release(request: Request): Promise<ReleaseReply> {
    this.#endRenewal(request);
    const { leaseMs } = request.resolved;
    const most = this.servers.length - this.quorum;
    const limitMs = this.limitOf(leaseMs);
    const reply = await poll(
      this.servers,
      (server) => server.release(request, limitMs, () => this.#removeLater(server, request, leaseMs)),
      (removals, isOver): ReleaseReply | undefined => {
        const gone = countOf(removals, (removal) => removal === false);
        const removed = countOf(removals, (removal) => removal === true);
        if (gone > most) return "not-held";
        const missing = isOver ? 0 : this.servers.length - countOf(removals, () => true);
        if (removed + gone >= this.quorum && gone + missing <= most) return "released";
        if (!isOver) return undefined;
        throw new QuorumError(request.name, "was not released", this.quorum, this.#votesOf(removals));
      },
    );
    this.outage.worked();
    return reply;
  }

  cancel(request: Request, leaseMs: number = request.resolved.leaseMs): void {
    this.cancelOn(this.servers, request, leaseMs);
  }

  /** Removes the lease from these servers, each in the background until it answers or the lease there has ended. */
  cancelOn(servers: readonly QuorumServer[], request: Request, leaseMs: number): void {
    this.#endRenewal(request);
    for (const server of servers) this.#removeLater(server, request, leaseMs);
  }

  #removeLater(server: QuorumServer, request: Request, leaseMs: number): void {
    this.#removals.get(server)?.add(request, leaseMs);
  }

  /** A renewal that is sent after the release would write the lease again. */
  #endRenewal({ token }: Request): void {
    const renewing = this.#renewing.get(token);
    if (renewing) renewing.isOver = true;
  }
}
