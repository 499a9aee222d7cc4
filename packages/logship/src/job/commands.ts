import { formatPosition } from "../bytes/reading.js";
import type { LocalFile } from "../bytes/files.js";
import type { LogConnection } from "../connection.js";
import { fencedError, LogshipError, resultError } from "../errors.js";
import { applyPending, resultKeys } from "../process/commands.js";
import { deferred, noEffects } from "../process/results.js";
import type { CommitOperands } from "../process/runner.js";
import * as scripts from "../scripts/index.js";

/** A worker's right to a file. */
export type Claimed = Extract<scripts.Claim, { state: "claimed" }>;

/** A file, and what the job has recorded about it. */
export interface Listed {
  readonly file: LocalFile;
  readonly prefix: string;
  /** The file's stamp when it was done; until then another text that begins with a size. */
  readonly stamp: string;
}

const lookUpFiles = 500;

/** The commands of a job. */
export class JobCommands {
  readonly #connection: LogConnection;
  readonly #resultKey: (name: string) => string;

  constructor(connection: LogConnection, resultKey: (name: string) => string) {
    this.#connection = connection;
    this.#resultKey = resultKey;
  }

  /** The records of some files, in their order. */
  async listed(files: readonly LocalFile[], signal: AbortSignal): Promise<Listed[]> {
    const listed: Listed[] = [];
    for (let from = 0; from === 0 || from < files.length; from += lookUpFiles) {
      const some = files.slice(from, from + lookUpFiles);
      const fields = some.flatMap(({ id }) => [`${id}:prefix`, `${id}:stamp`]);
      const facts = await this.facts(fields, signal);
      for (const [index, file] of some.entries()) {
        const [prefix, stamp] = facts.slice(2 * index, 2 * index + 2);
        listed.push({ file, prefix: prefix ?? "", stamp: stamp ?? "" });
      }
    }
    return listed;
  }

  /** Some facts of files and contents, as `<id>:<fact>`. */
  async facts(fields: readonly string[], signal: AbortSignal): Promise<(string | null)[]> {
    return await this.#connection.fields("progress", fields, signal);
  }

  /** Takes a file; waits out outages. Every attempt repeats the op. */
  async claim(
    args: Parameters<typeof scripts.claim.run>[2] & { readonly op: string },
    signal: AbortSignal,
  ): Promise<scripts.Claim> {
    const { op } = args;
    const attempt = (): Promise<scripts.Claim> => this.#connection.run(scripts.claim, args, { signal, op });
    return await this.#connection.persist(attempt, signal);
  }

  /** Stores results and position of a claimed file, and renews the claim. */
  async commit(
    { content, fence }: Claimed,
    file: LocalFile,
    leaseMs: number,
    operands: CommitOperands,
    signal: AbortSignal,
  ): Promise<void> {
    const { keys } = this.#connection;
    const { effects, pieces, isDone, lines, seq, position } = operands;
    const targets = pieces ? [keys.pending()] : effects.names.map((name) => this.#resultKey(name));
    const results = pieces ? deferred(pieces, `${content} ${String(seq)}`) : effects.results;
    const facts = { seq, position: formatPosition(position), lines, doneStamp: isDone ? file.stamp : "", results };
    const args = { content, fence, leaseMs, events: keys.events, ...facts };
    const call = { keys: { ...keys, targets } };
    // An abort does not end a commit that was sent: we must know whether it is stored.
    const attempt = (): Promise<scripts.Committed> => this.#connection.run(scripts.progress, args, call);
    checkCommitted(await this.#connection.persist(attempt, signal), file, targets);
  }

  /** Renews the claim of a file; with a lease of 0 it ends the claim. */
  async renew({ content, fence }: Claimed, file: LocalFile, leaseMs: number): Promise<void> {
    const { keys } = this.#connection;
    const nothing = { seq: 0, position: "", lines: 0, doneStamp: "", results: noEffects.results };
    const args = { content, fence, leaseMs, events: keys.events, ...nothing };
    checkCommitted(await this.#connection.run(scripts.progress, args, { keys: { ...keys, targets: [] } }), file, []);
  }

  /** Applies the results of large commits that are stored, and not applied. */
  async applyPending(signal: AbortSignal): Promise<void> {
    const { job: owner, pending } = this.#connection.keys;
    await applyPending(this.#connection, { owner, pending: pending(), resultKey: this.#resultKey }, signal);
  }

  /** Deletes the job with its results. */
  async delete(): Promise<void> {
    const { keys, name } = this.#connection;
    for (let outcome = ""; outcome !== "deleted";) {
      const record = await this.#connection.hash(keys.job);
      const targets = resultKeys(record);
      const args = { fence: record.get("fence") ?? "" };
      outcome = await this.#connection.run(scripts.forget, args, { keys: { ...keys, targets } });
      if (outcome === "busy")
        throw new LogshipError("KIT_LOGSHIP_BUSY", `Job ${JSON.stringify(name)} has a worker: end its runs first`);
    }
  }
}

const checkCommitted = (reply: scripts.Committed, { name }: LocalFile, targets: readonly string[]): void => {
  if (reply.state === "refused") throw resultError(reply.fault, targets);
  if (reply.state !== "committed") throw fencedError("The file", name);
};
