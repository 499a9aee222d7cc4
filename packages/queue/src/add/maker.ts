import { traceCarrier } from "@kit/core/toolkit";
import { headOf, type Payload } from "../job/payload.js";
import { keyWordOf } from "../job/unique.js";
import { planned } from "../job/words.js";
import type { ResolvedAdd } from "./options.js";
import { type NewJob, parseOp } from "./producer.js";

const mostHeads = 1_000;

/** Makes the jobs of one queue, as they are sent. */
export class JobMaker {
  /** The options of a job without any. */
  readonly #usual: ResolvedAdd;
  /** The headers of jobs without options, by name. The cache is bounded, because names can come from user input. */
  readonly #heads = new Map<string, string>();

  constructor(usual: ResolvedAdd) {
    this.#usual = usual;
  }

  make(name: string, payload: Payload, resolved: ResolvedAdd, replyTo?: string, isAsked = false): NewJob {
    const { id, unique, op, policy, priority, group } = resolved;
    const isBytes = typeof payload !== "string";
    const traceparent = resolved.traceparent ?? traceCarrier()?.current();
    const isUsual = resolved === this.#usual && !isBytes && (replyTo ?? traceparent) === undefined;
    const keyWords = unique && [keyWordOf(unique)];
    const head = isUsual
      ? this.#usualHead(name)
      : headOf(name, policy, priority, isBytes, replyTo, keyWords, traceparent, group);
    const all = isAsked ? resolved.words + planned("answer") : resolved.words;
    const words = id === undefined && op === undefined ? all : planned("ifNew") + all;
    const former = op === undefined ? undefined : parseOp(op);
    if (former && id !== undefined && id !== former.id)
      throw new TypeError(`Expected \`op\` to come from an add of \`id\``);
    // All jobs have one shape: a copy with `...` and a field added later took 8 µs a job.
    return {
      head,
      payload,
      words: former ? words + former.word : words,
      id: former ? former.id : id,
      op,
      call: undefined,
      isOnce: isAsked || unique !== undefined,
      isRepeat: former !== undefined,
      isRepeatable: former !== undefined || unique?.ttlMs !== undefined,
      isGivenUp: false,
    };
  }

  #usualHead(name: string): string {
    const known = this.#heads.get(name);
    if (known !== undefined) return known;
    const head = headOf(name, this.#usual.policy, 0, false);
    if (this.#heads.size >= mostHeads) this.#heads.clear();
    this.#heads.set(name, head);
    return head;
  }
}
