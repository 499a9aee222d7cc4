import type { KitError } from "@kit/core";
import { asKitError, Deadline } from "@kit/core/toolkit";
import type { Commands } from "../store/commands.js";
import type { SendBuffer } from "./buffer.js";
import type { Batch, Outbox } from "./outbox.js";
import type { Outcomes } from "./outcomes.js";

/** How long the server remembers the last batch of a writer. A batch may be sent again for half of that. */
const ledgerMs = 600_000;
const resendMs = ledgerMs / 2;

/** The most series and operands of one call. On a Cluster a call has one series. */
const maxSeries = 64;
const maxOperands = 4_000;
/** If less than this share of a caller's deadline is left when its amount would be sent, the call rejects instead. */
const leastShare = 0.25;

/** One try to send an outbox, shared by all callers that want it. */
interface Attempt {
  readonly promise: Promise<KitError | undefined>;
  readonly resolve: (error: KitError | undefined) => void;
}

/**
 * Sends outboxes as soon as possible. Outboxes of one turn share as few calls as possible.
 *
 * Each outbox has at most one batch in flight, so the server sees the sequence numbers of a series in order. Different series
 * do not wait for each other.
 */
export class Dispatcher {
  readonly #commands: Commands;
  readonly #buffer: SendBuffer;
  readonly #outcomes: Outcomes;
  readonly #onCall: (key: string) => void;
  readonly #wanted = new Map<Outbox, Attempt>();
  #seq = 0;
  #isScheduled = false;
  #closing = new Deadline(Infinity);

  /** `onCall` receives a key of each call before it is sent. */
  constructor(commands: Commands, buffer: SendBuffer, outcomes: Outcomes, onCall: (key: string) => void) {
    this.#commands = commands;
    this.#buffer = buffer;
    this.#outcomes = outcomes;
    this.#onCall = onCall;
  }

  /** The deadline of a call that starts now. */
  deadline(): Deadline {
    return Deadline.in(Math.min(this.#commands.deadlineMs, Math.max(1, this.#closing.remainingMs)));
  }

  /** From now on no call lasts longer than `closing`. */
  closeBy(closing: Deadline): void {
    this.#closing = closing;
  }

  /** Tries once to send the present contents of an outbox; resolves with the error, if any. */
  attempt(outbox: Outbox): Promise<KitError | undefined> {
    let attempt = this.#wanted.get(outbox);
    if (!attempt) {
      let resolve: Attempt["resolve"] = () => undefined;
      const promise = new Promise<KitError | undefined>((settle) => (resolve = settle));
      this.#wanted.set(outbox, (attempt = { promise, resolve }));
      this.#schedule();
    }
    return attempt.promise;
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    queueMicrotask(() => {
      this.#isScheduled = false;
      void this.#dispatch();
    });
  }

  async #dispatch(): Promise<void> {
    const ready = [...this.#wanted].filter(([outbox]) => !outbox.isInFlight);
    for (const [outbox] of ready) {
      this.#wanted.delete(outbox);
      outbox.isInFlight = true;
    }
    let isCluster: boolean;
    try {
      await this.#commands.learnTime(this.#commands.clock.isKnown ? undefined : this.deadline());
      isCluster = await this.#commands.isCluster(this.deadline().remainingMs);
    } catch (reason) {
      // No batch was created, so nothing was sent. Waiting callers reject, and the rest stays.
      const error = asKitError(reason, "Sending");
      for (const [outbox, attempt] of ready) {
        if (!outbox.sealed) for (const { reject } of [...outbox.waiters]) reject(error);
        this.#ended(outbox, attempt, error);
      }
      return;
    }
    const batches = ready.flatMap(([outbox, attempt]) => {
      const batch = this.#batchOf(outbox);
      if (batch) return [{ batch, attempt }];
      this.#ended(outbox, attempt, undefined);
      return [];
    });
    for (const group of grouped(batches, isCluster)) void this.#send(group);
  }

  /** The batch to send: the one whose outcome is open, or a new one. */
  #batchOf(outbox: Outbox): Batch | undefined {
    if (outbox.sealed) return outbox.sealed;
    const { clock, deadlineMs } = this.#commands;
    const placed = outbox.size;
    outbox.prune(clock.now());
    const before = outbox.size;
    this.#buffer.release(placed - before);
    const leastMs = leastShare * deadlineMs;
    for (const { deadline, reject } of [...outbox.waiters])
      if (deadline.remainingMs < leastMs) reject(this.#commands.notSent(outbox.id));
    if (!outbox.hasPending) return undefined;
    const isOnce = outbox.delivery === "effectively-once";
    const validUntil = isOnce ? Math.floor(clock.now()) + resendMs : 0;
    const batch = outbox.seal(++this.#seq, validUntil);
    // Entries that could not be placed in time before have merged, or were taken out.
    this.#buffer.release(before - outbox.size);
    return batch;
  }

  async #send(group: readonly { readonly batch: Batch; readonly attempt: Attempt }[]): Promise<void> {
    const [first] = group;
    if (!first) return;
    const { channel, delivery } = first.batch.outbox;
    let dueAt = this.deadline().at;
    for (const { batch } of group) {
      // The callers of a batch that is sent again already have their answer.
      if (!batch.mayBeCounted) for (const { deadline } of batch.waiters) dueAt = Math.min(dueAt, deadline.at);
    }
    this.#onCall(first.batch.operands.keys[0] ?? "");
    const script = delivery === "at-most-once" ? channel.onceOnly : channel.script;
    const remembered = delivery === "effectively-once" ? ledgerMs : 0;
    const batches = group.map(({ batch }) => batch);
    const sentAt = performance.now();
    let replies: readonly (string | Error)[];
    const deadlineMs = Math.max(1, new Deadline(dueAt).remainingMs);
    try {
      replies = await this.#commands.send(script, remembered, batches, deadlineMs);
    } catch (reason) {
      const error = asKitError(reason, "Sending");
      for (const { batch, attempt } of group) {
        this.#outcomes.failed(batch, error);
        this.#ended(batch.outbox, attempt, error);
      }
      return;
    }
    this.#commands.clock.observe(sentAt, Number(replies[0]));
    group.forEach(({ batch, attempt }, index) => {
      const error = this.#outcomes.replied(batch, replies[index + 1] ?? "");
      this.#ended(batch.outbox, attempt, error, batch.mayBeCounted || batch.leavesRest);
    });
  }

  #ended(outbox: Outbox, attempt: Attempt, error: KitError | undefined, hasMore = false): void {
    outbox.isInFlight = false;
    this.#buffer.unlistEmpty(outbox);
    // The attempt also covered amounts that waited for the resent batch, or did not fit into it.
    if (hasMore && outbox.hasPending && (!error || outbox.waiters.size > 0))
      void this.attempt(outbox).then((later) => attempt.resolve(error ?? later));
    else attempt.resolve(error);
    if (this.#wanted.has(outbox)) this.#schedule();
  }
}

/** Batches that go into one call: of one kind and delivery, and on a Cluster of one series. */
const grouped = <Item extends { readonly batch: Batch }>(items: readonly Item[], isCluster: boolean): Item[][] => {
  if (isCluster) return items.map((item) => [item]);
  const groups: Item[][] = [];
  const open = new Map<string, { readonly group: Item[]; operands: number }>();
  for (const item of items) {
    const { operands, outbox } = item.batch;
    const kind = `${outbox.channel.script.name} ${outbox.delivery}`;
    const count = operands.keys.length + operands.plan.length;
    let found = open.get(kind);
    if (!found || found.group.length >= maxSeries || found.operands + count > maxOperands) {
      open.set(kind, (found = { group: [], operands: 0 }));
      groups.push(found.group);
    }
    found.group.push(item);
    found.operands += count;
  }
  return groups;
};
