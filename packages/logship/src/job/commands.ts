import { applyPending, resultKeys } from "../process/commands.js";
import { formatPosition } from "../bytes/reading.js";
import type { LocalFile } from "../bytes/files.js";
import type { LogConnection } from "../connection.js";
import { fencedError, LogshipError, resultError } from "../errors.js";
import { deferred, noEffects } from "../process/results.js";
import type { CommitOperands } from "../process/runner.js";
import * as scripts from "../scripts/index.js";

/** A worker's right to a file. */
export type Claimed = Extract<scripts.Claim, { state: "claimed" }>;

/** A file, and the job's record of it. */
export interface Listed {
  readonly file: LocalFile;
  readonly prefix: string;
  /** The file's stamp when it was done. Before that, another text that starts with a size. */
  readonly stamp: string;
}

/** A commit, and the record of the text that is counted with it. */
interface JobCommit extends CommitOperands {
  readonly prefix: string;
}

const lookUpFiles = 500;

export type JobCommands = ReturnType<typeof jobCommands>;

/** The commands of a job. */
export const jobCommands = (connection: LogConnection, resultKey: (name: string) => string) => {
  const { keys } = connection;

  /** Some facts of files and contents, as `<id>:<fact>`. */
  const facts = async (fields: readonly string[], signal: AbortSignal): Promise<(string | null)[]> =>
    await connection.fields("progress", fields, signal);

  const progress = async (
    { content, fence }: Claimed,
    file: LocalFile,
    leaseMs: number,
    { effects = noEffects, pieces, isDone = false, lines = 0, seq = 0, position, prefix = "" }: Partial<JobCommit>,
    signal?: AbortSignal,
  ): Promise<void> => {
    const targets = pieces ? [keys.pending()] : effects.names.map((name) => resultKey(name));
    const args = {
      content,
      fence,
      leaseMs,
      events: keys.events,
      seq,
      position: position ? formatPosition(position) : "",
      prefix,
      lines,
      doneStamp: isDone ? file.stamp : "",
      results: pieces ? deferred(pieces, `${content} ${String(seq)}`) : effects.results,
    };
    const call = { keys: { ...keys, targets } };
    const send = (): Promise<scripts.Committed> => connection.run(scripts.progress, args, call);
    const reply = await (signal ? connection.persist(send, signal) : send());
    if (reply.state === "refused") throw resultError(reply.fault, targets);
    if (reply.state !== "committed") throw fencedError("The file", file.name);
  };

  return {
    facts,

    /** The records of some files, in the order of the files. */
    listed: async (files: readonly LocalFile[], signal: AbortSignal): Promise<Listed[]> => {
      const listed: Listed[] = [];
      for (let from = 0; from === 0 || from < files.length; from += lookUpFiles) {
        const some = files.slice(from, from + lookUpFiles);
        const found = await facts(
          some.flatMap(({ id }) => [`${id}:prefix`, `${id}:stamp`]),
          signal,
        );
        for (const [index, file] of some.entries()) {
          const [prefix, stamp] = found.slice(2 * index, 2 * index + 2);
          listed.push({ file, prefix: prefix ?? "", stamp: stamp ?? "" });
        }
      }
      return listed;
    },

    /** Claims a file, and waits out outages. Every attempt repeats the op. */
    claim: async (
      args: Parameters<typeof scripts.claim.run>[2] & { readonly op: string },
      signal: AbortSignal,
    ): Promise<scripts.Claim> =>
      await connection.persist(() => connection.run(scripts.claim, args, { signal, op: args.op }), signal),

    /**
     * Stores results and position of a claimed file, and renews the claim. An abort does not end a commit that was sent, because we must
     * know whether it is stored.
     */
    commit: progress,

    /** Renews the claim of a file. A lease of 0 ends the claim. */
    renew: (claimed: Claimed, file: LocalFile, leaseMs: number): Promise<void> => progress(claimed, file, leaseMs, {}),

    /** Applies the results of large commits that are stored but not applied yet. */
    applyPending: (signal: AbortSignal): Promise<void> =>
      applyPending(connection, { owner: keys.job, pending: keys.pending(), resultKey }, signal),

    /** Deletes the job with its results. */
    delete: async (): Promise<void> => {
      for (let outcome = ""; outcome !== "deleted";) {
        const record = await connection.hash(keys.job);
        const args = { fence: record.get("fence") ?? "" };
        outcome = await connection.run(scripts.forget, args, { keys: { ...keys, targets: resultKeys(record) } });
        if (outcome === "busy") {
          const message = `Job ${JSON.stringify(connection.name)} is running. Stop its runs first`;
          throw new LogshipError("KIT_LOGSHIP_BUSY", message);
        }
      }
    },
  };
};
