import type { ClientContext } from "@kit/core/toolkit";
import type { BookKeys } from "../keys.js";
import * as scripts from "../scripts/index.js";

type RecordArgs = Parameters<typeof scripts.record.run>[2] & { readonly op: string };
type ForgetArgs = Parameters<typeof scripts.forget.run>[2] & { readonly op: string };

/** The calls of one contact book. */
export class BookCommands {
  readonly #context: ClientContext;
  readonly #keys: BookKeys;
  readonly #deadlineMs: number;

  constructor(keys: BookKeys, context: ClientContext, deadlineMs: number) {
    this.#keys = keys;
    this.#context = context;
    this.#deadlineMs = deadlineMs;
  }

  /** One event with a contact. With another `op` it is another event. */
  record(args: RecordArgs, isRepeatable: boolean, signal: AbortSignal | undefined): Promise<scripts.BookChange> {
    const options = { deadlineMs: this.#deadlineMs, op: args.op, isRepeatable, signal };
    return scripts.record.run(this.#context, this.#keys, args, options);
  }

  /** Removes, blocks or unblocks a contact. */
  forget(args: ForgetArgs, signal: AbortSignal | undefined): Promise<scripts.BookChange> {
    const { op } = args;
    return scripts.forget.run(this.#context, this.#keys, args, { deadlineMs: this.#deadlineMs, op, signal });
  }

  /** The book, if its version is not the given one. */
  fetch(version: string): Promise<scripts.FetchReply> {
    return scripts.fetch.run(this.#context, this.#keys, { version }, { deadlineMs: this.#deadlineMs });
  }

  purge(signal: AbortSignal | undefined): Promise<number> {
    const keys = Object.values(this.#keys) as string[];
    return scripts.purge.run(this.#context, { keys }, {}, { deadlineMs: this.#deadlineMs, signal });
  }
}
