import { createHash } from "node:crypto";
import type { RedisArgument, RedisLike } from "../connection/client.js";
import { Deadline } from "../base/deadline.js";
import { isReplyError, KitKeyTypeError, replyOf, safeCause, serverError } from "../base/errors.js";
import { subjectOf } from "../base/keyspace.js";
import { type Call, CommandExecutor, reading } from "../execution/executor.js";
import { ClientContext, withContext } from "../context/context.js";

type NameOf<Operand> = Operand extends `...${infer Rest}`
  ? NameOf<Rest>
  : Operand extends `${infer Name}[${string}]`
    ? Name
    : Operand extends `${infer Name}: ${string}`
      ? Name
      : Operand;

type Words<Text> = Text extends `${infer Word} ${infer Rest}` ? Word | Words<Rest> : Text;

/** The values of operands by name, in the forms of {@link ScriptSpec.args}. */
type Operands<Names extends readonly string[], Value> = {
  readonly [Operand in Names[number] as NameOf<Operand> & string]: Operand extends `...${infer Rest}`
    ? readonly ValueOf<Rest, Value>[]
    : ValueOf<Operand, Value>;
};

type ValueOf<Operand, Value> = Operand extends `${string}[${infer Parts}]`
  ? { readonly [Part in Words<Parts> & string]: Value }
  : Operand extends `${string}: ${infer Parts}`
    ? { readonly [Part in Words<Parts> & string]: string | number }
    : Value;

/** The parts of a script. */
export interface ScriptSpec<Keys extends readonly string[], Args extends readonly string[], Reply> {
  /** `<package>.<script>`, for messages and traces. */
  readonly name: string;
  /**
   * The Lua text, or several texts to join: libraries first, the script itself last. A line `-- Libraries` in the script marks
   * where the libraries go. Code before that line cannot use them.
   */
  readonly source: string | readonly string[];
  /** The names of KEYS in order, as in the script's header and bindings. They use the forms of `args`. */
  readonly keys: Keys;
  /**
   * The names of ARGV in order, as in the script's header and bindings.
   *
   * - `token`: one argument.
   * - `...tokens`: any number of arguments; only as the last operand.
   * - `...changes[id revision]`: any number of rows, each with one argument per name. A call passes a list of objects,
   *   `{ id, revision }`; only as the last operand.
   * - `terms: leaseMs inbox`: several values in one argument, joined by spaces, because each argument costs time. A call passes an
   *   object. A space in a value shifts the values after it.
   * - `...terms: leaseMs inbox`: any number of such arguments.
   */
  readonly args: Args;
  /**
   * Whether the script changes nothing. If true, a lost reply is never an unknown outcome: kit sends the script again.
   *
   * @default false
   */
  readonly readonly?: boolean;
  /**
   * Whether two runs of the script have the same effect as one. If true, kit sends the script again when a reply is lost.
   *
   * @default `readonly`
   */
  readonly idempotent?: boolean;
  /**
   * Whether texts in the raw reply are Buffers, byte for byte. Otherwise they are decoded as UTF-8.
   *
   * @default false
   */
  readonly bytes?: boolean;
  /** Converts the raw reply to the result of `run()`. If it throws, `run()` rejects with its error, although the script has run. */
  readonly reply: (raw: unknown) => Reply;
}

/** Options of one script call. */
export interface RunOptions {
  /**
   * The promise settles within this many milliseconds. If the event loop was blocked when they ended, the call gets extra time:
   * another `deadlineMs`, up to one second.
   *
   * @default 2000
   */
  readonly deadlineMs?: number | undefined;
  /** Rejects the call with `signal.reason`. A script that was already sent may still run. */
  readonly signal?: AbortSignal | undefined;
  /** The operation id that an unknown outcome reports. */
  readonly op?: string | undefined;
  /**
   * Whether your caller may repeat its call: the `retryable` of an unknown outcome. Pass false if you created `op`, or another
   * operand, for this call only: a repeated call would then be a different change.
   *
   * @default true if the script is idempotent, or has an `op`
   */
  readonly isRepeatable?: boolean | undefined;
  /**
   * The caller's operation, for messages.
   *
   * @default the script's name
   */
  readonly operation?: string | undefined;
  /**
   * Called each time before the script is sent, including after a wait for a connection or a lost reply. If it returns false, the
   * script is not sent (again), and the call rejects as it would at its deadline.
   */
  readonly isWanted?: (() => boolean) | undefined;
}

/** A Lua script with named operands. */
export interface Script<Keys extends readonly string[], Args extends readonly string[], Reply> {
  readonly name: string;
  readonly source: string;
  readonly sources: readonly string[];
  readonly keys: Keys;
  readonly args: Args;
  /**
   * Runs the script as one atomic step. Sends its hash, and its text if the server does not have the script.
   *
   * On a Cluster all keys must be in the same slot. Always settles by the deadline.
   *
   * @throws {KitUnavailableError} no server answered in time; nothing was changed.
   * @throws {KitUnknownOutcomeError} the script was sent and changes data, but its reply was lost. Over HTTP also if the reply cannot be read.
   * @throws {KitKeyTypeError} a key holds another type; nothing was changed.
   * @throws {KitError} any other error of the server, with its code.
   * @throws {TypeError} `deadlineMs` is not a number, or a key is missing.
   * @throws {RangeError} the call has more than 100,000 operands.
   */
  run(
    redis: RedisLike | ClientContext | CommandExecutor,
    keys: Operands<Keys, string>,
    args: Operands<Args, RedisArgument>,
    options?: RunOptions,
  ): Promise<Reply>;
}

const defaultDeadlineMs = 2_000;

const joined = (sources: readonly string[]): string => {
  const libraries = sources.slice(0, -1).join("\n");
  const script = sources.at(-1) ?? "";
  const place = /^-- Libraries$/m;
  return place.test(script) ? script.replace(place, () => libraries) : sources.join("\n");
};

/** Returns a function that appends operands in the order of their names. */
const appending = (operands: readonly string[]) => {
  const forms = operands.map((operand) => {
    const [name, ...parts] = operand.match(/\w+/g)!;
    return [name!, parts, operand.endsWith("]"), parts[0] && packing(parts)] as const;
  });
  return (list: RedisArgument[], values: Readonly<Record<string, unknown>>): void => {
    for (const [name, parts, isRows, pack] of forms) {
      const value = values[name];
      if (isRows) for (const row of value as readonly Row[]) for (const part of parts) list.push(row[part]!);
      else if (Array.isArray(value)) for (const one of value) list.push(pack ? pack(one) : (one as RedisArgument));
      else list.push(pack ? pack(value as Parts) : (value as RedisArgument));
    }
  };
};

type Row = Readonly<Record<string, RedisArgument>>;
type Parts = Readonly<Record<string, string | number>>;

/** Concatenates, which takes half the time of `map` and `join`. This runs for every command. */
const packing =
  ([first = "", ...others]: readonly string[]) =>
  (values: Parts): string => {
    let text = String(values[first] ?? "");
    for (const part of others) text += ` ${values[part] ?? ""}`;
    return text;
  };

/** One call as the executor sees it. Its description is only composed if it fails. */
class ScriptCall implements Call {
  readonly mutates: boolean;
  readonly idempotent: boolean;
  readonly bytes: boolean;
  readonly op: string | undefined;
  readonly isRepeatable: boolean | undefined;
  readonly deadline: Deadline;
  readonly signal: AbortSignal | undefined;
  readonly isWanted: (() => boolean) | undefined;
  maybeSent = false;
  /** The script's text or hash, the number of keys, the keys, and the arguments. */
  readonly operands: RedisArgument[];
  readonly #operation: string;

  constructor(
    facts: { readonly name: string; readonly readonly: boolean; readonly idempotent: boolean; readonly bytes: boolean },
    operands: RedisArgument[],
    { deadlineMs = defaultDeadlineMs, signal, op, isRepeatable, operation = facts.name, isWanted }: RunOptions,
  ) {
    this.#operation = operation;
    this.operands = operands;
    this.mutates = !facts.readonly;
    this.idempotent = facts.idempotent;
    this.bytes = facts.bytes;
    this.op = op;
    this.isRepeatable = isRepeatable;
    this.deadline = Deadline.in(deadlineMs);
    this.signal = signal;
    this.isWanted = isWanted;
  }

  get keys(): string[] {
    return this.operands.slice(2, 2 + Number(this.operands[1])).map(String);
  }

  get what(): string {
    const [key] = this.keys;
    return key === undefined ? this.#operation : `${this.#operation} of ${subjectOf(key)}`;
  }
}

/** Defines a script. Call it once, at module level. Nothing is sent until the script runs. */
export const defineScript = <const Keys extends readonly string[], const Args extends readonly string[], Reply>(
  spec: ScriptSpec<Keys, Args, Reply>,
): Script<Keys, Args, Reply> => {
  const { name, keys: keyNames, args: argNames, readonly = false, idempotent = readonly, bytes = false } = spec;
  const facts = { name, readonly, idempotent, bytes };
  const appendKeys = appending(keyNames);
  const appendArgs = appending(argNames);
  const sources = typeof spec.source === "string" ? [spec.source] : spec.source;
  const source = joined(sources);
  const sha = createHash("sha1").update(source).digest("hex");

  // Async from its first line, so that a wrong operand rejects and does not throw.
  const run: Script<Keys, Args, Reply>["run"] = async (redis, keys, args, options = {}) => {
    const executor = redis instanceof ClientContext ? redis.executor : redis;
    if (!(executor instanceof CommandExecutor))
      return await withContext(executor, (context) => run(context, keys, args, options));
    const operands: RedisArgument[] = [sha, 0];
    appendKeys(operands, keys);
    operands[1] = operands.length - 2;
    // The client would send an empty text.
    if (operands.some((one) => one == null)) throw new TypeError(`A key of ${name} is missing`);
    appendArgs(operands, args);
    // Clients take them as arguments of a function, which must fit on the stack.
    if (operands.length > 100_000) throw new RangeError(`${name} has over 100,000 arguments`);
    const call = new ScriptCall(facts, operands, options);
    // A deadline of NaN, or of text that is no number, would never come.
    if (!(call.deadline.at > -Infinity)) throw new TypeError("Expected `deadlineMs` to be a number");
    let raw: unknown;
    try {
      try {
        raw = await executor.run("evalsha", operands, call);
      } catch (error) {
        if (!isReplyError(error) || !replyOf(error.message).startsWith("NOSCRIPT")) throw error;
        raw = await executor.run("eval", operands.with(0, source), call);
      }
      return spec.reply(raw);
    } catch (error) {
      if (!isReplyError(error)) throw raw === undefined ? error : executor.unreadable(call, error);
      if (replyOf(error.message).startsWith("WRONGTYPE")) throw await keyTypeError(executor, call, source, error);
      throw serverError(error, call.what);
    }
  };

  return { name, source, sources, keys: keyNames, args: argNames, run };
};

/** The types of the keys in a script's header: `-- KEYS[1]  lease  string  …`; `KEYS[n]` covers all the rest. */
const expectedTypes = (source: string): ((position: number) => string | undefined) => {
  const types = new Map<string, string>();
  for (const [, position = "", type = ""] of source.matchAll(/^-- KEYS\[(\d+|n)\]\s+\S+\s+(\w+)/gm))
    types.set(position, type);
  return (position) => types.get(String(position)) ?? types.get("n");
};

/** Redis does not report which key has the wrong type. The script's header has the type of each key. */
const keyTypeError = async (
  executor: CommandExecutor,
  { what, keys, deadline: callsEnd }: ScriptCall,
  source: string,
  error: Error,
): Promise<KitKeyTypeError> => {
  const expected = expectedTypes(source);
  const cause = safeCause(error);
  // Within the deadline of the call: without a reply the error names no key.
  const deadline = Deadline.in(Math.min(callsEnd.remainingMs, 500));
  const others: string[] = [];
  for (const [index, key] of keys.entries()) {
    const found = await executor.run("TYPE", [key], reading(`TYPE of ${key}`, deadline)).catch(() => undefined);
    const wanted = expected(index + 1);
    if (typeof found !== "string" || found === "none" || wanted === undefined || found === wanted) continue;
    if (wanted === "any") others.push(`${key} (${found})`);
    else return new KitKeyTypeError(`${what} failed: key ${key} holds a ${found}, not a ${wanted}`, key, found, cause);
  }
  // Of keys whose types differ only the script knows which is wrong.
  const among = others.length === 0 ? "" : `: ${others.slice(0, 5).join(" or ")}`;
  return new KitKeyTypeError(`${what} failed: a key holds another type of data${among}`, undefined, undefined, cause);
};
