import { expect } from "vitest";
import type { Call } from "../description.js";
import type { OptionRules } from "../rules.js";

type Calls<T> = Readonly<Record<string, Call<T>>>;

/** How to acquire from an object. `name` is for objects that have many names. */
export interface Acquiring<T> {
  readonly name: string;
  readonly options: OptionRules;
  readonly tryOptions: OptionRules;
  /** Required options of each call. */
  readonly required?: object;
  /** The name in traces; without it the calls are not traced. */
  readonly what?: string;
  /** The object has one name. */
  readonly isNamed?: true;
  /** The `waitMs` of an acquire without options. @default Infinity */
  readonly waitMs?: number;
  /** The method's name, by that of a plain object: `usingAll` for `using`. */
  method?(plain: "acquire" | "tryAcquire" | "using"): string;
  hold(object: T): Promise<unknown>;
  /** With the given options: if the caller waits, nothing else ends the wait. */
  acquire(object: T, options: never, name: string): unknown;
  /** As `acquire`, for calls that must not wait for ever. @default acquire */
  acquireSoon?(object: T, options: never, name: string): unknown;
  tryAcquire(object: T, options: never, name: string): unknown;
  using(object: T, options: never, name: string): unknown;
}

/** The calls that acquire. */
export const acquireCalls = <T>(of: Acquiring<T>): Calls<T> => {
  const { name, options, tryOptions, required = {}, what, waitMs = Infinity, method = String, hold } = of;
  const acquire = of.acquireSoon ?? of.acquire;
  const call = (run: Acquiring<T>["using"], rules: OptionRules, wait?: number): Call<T> => ({
    options: rules,
    required,
    run: (object, given) => run(object, given as never, name),
    ...(of.isNamed ? {} : { named: (object: T, named: string) => run(object, undefined as never, named) }),
    ...(wait === undefined || what === undefined
      ? {}
      : { trace: [`kit:${what}.acquire`, { name, waitMs: wait }] as const }),
  });
  const { named: _, ...waiting } = call(of.acquire, options);
  return {
    [method("acquire")]: call(acquire, options, waitMs),
    [`${method("acquire")}, waiting`]: { ...waiting, prepare: hold, waits: true },
    [method("tryAcquire")]: call(of.tryAcquire, tryOptions, 0),
    [method("using")]: call(of.using, options),
  };
};

interface Renewed {
  serialise(): string;
  extend(): Promise<void>;
  release(): Promise<string>;
}

/** The calls of a lease, and the one that continues it. */
export const leaseCalls = <T extends { resume(text: string): Promise<unknown> }>(of: {
  readonly what: string;
  readonly name: string;
  /** The lease in words. @default lease */
  readonly lease?: string;
  readonly lostCode: string;
  readonly hasFencingToken?: true;
  hold(object: T): Promise<Renewed>;
}): Calls<T> => {
  const { what, name, lease = "lease", lostCode, hold } = of;
  const fencingToken = of.hasFencingToken && { fencingToken: expect.any(String) as string };
  return {
    resume: {
      prepare: async (object) => (await hold(object)).serialise(),
      run: (object, _options, text: string) => object.resume(text),
    },
    [`${lease}.extend`]: {
      prepare: hold,
      run: (_object, _options, held: Renewed) => held.extend(),
      closed: lostCode,
    },
    [`${lease}.release`]: {
      prepare: hold,
      run: (_object, _options, held: Renewed) => held.release(),
      closed: "not-held",
      trace: [`kit:${what}.release`, { name, ...fencingToken }],
    },
  };
};

/** A waiter that the holder's release wakes. */
export const wakesByRelease =
  <T>(hold: (object: T) => Promise<Renewed>, acquire: (object: T) => Promise<Renewed> = hold) =>
  async (object: T, settle: () => Promise<void>): Promise<unknown> => {
    const held = await hold(object);
    const waiting = acquire(object);
    await settle();
    await held.release();
    return await (await waiting).release();
  };
