import { inspect } from "node:util";
import { KitError } from "@kit/core";
import type { RedisServer } from "@kit/testing";

// Single calls against foreign data in Redis, or with invalid input. A call either succeeds, or rejects with a typed error
// and changes nothing (`U6`).

export interface Findings {
  effects: number;
  checked: number;
  readonly broken: string[];
}

/** Data of a package that can be spoilt. Each call gets a new scene, so that no call sees the effects of another. */
interface Scene {
  /** Its keys, by their names in the package. */
  readonly keys: Readonly<Record<string, string>>;
}

type Calls<S> = Readonly<Record<string, (scene: S) => Promise<unknown>>>;

const keyOf = ({ keys }: Scene, part: string): string => {
  const key = keys[part];
  if (key === undefined) throw new Error(`There is no key ${part}`);
  return key;
};

/** The parts of a package that an edge needs. */
export interface Subject<S extends Scene> {
  /** Every call of the API. Waiting calls have a short `waitMs`. */
  readonly calls: Calls<S>;
  /**
   * Error codes that are valid outcomes, since by the spoilt data another holder has the name. Such a call may leave
   * waiter data that expires.
   */
  readonly answers: readonly string[];
  /** Starts a server, and runs the work on it. */
  readonly stage: (
    work: (server: RedisServer, sceneOf: (name: string) => Promise<S>) => Promise<void>,
  ) => Promise<void>;
}

export type Spoil = (server: RedisServer, key: string) => Promise<unknown>;

export const setTo =
  (value: string): Spoil =>
  (server, key) =>
    server.call("SET", key, value);

/** A value of every type. One of them is the right type with foreign values. */
const otherTypes: Readonly<Record<string, Spoil>> = {
  "a string": setTo("x"),
  "a list": (server, key) => server.call("RPUSH", key, "x"),
  "a set": (server, key) => server.call("SADD", key, "x"),
  "a hash": (server, key) => server.call("HSET", key, "field", "x"),
  "a sorted set": (server, key) => server.call("ZADD", key, "1.5", "x"),
  "a stream": (server, key) => server.call("XADD", key, "*", "field", "x"),
};

const dumpOf = async (server: RedisServer, { keys }: Scene): Promise<string> => {
  const script =
    "local found = {} for i, key in ipairs(KEYS) do found[i] = redis.call('DUMP', key) or '' end return redis.sha1hex(table.concat(found, '\\n'))";
  const all = Object.values(keys);
  return String(await server.call("EVAL", script, String(all.length), ...all));
};

/** Makes a call on spoilt keys. It must succeed, or reject with a typed error and change nothing. */
const probe = async <S extends Scene>(
  server: RedisServer,
  scene: S,
  what: string,
  call: (scene: S) => Promise<unknown>,
  answers: readonly string[],
  found: Findings,
  code?: string,
): Promise<void> => {
  const before = await dumpOf(server, scene);
  found.checked++;
  let error: unknown;
  try {
    await call(scene);
  } catch (thrown) {
    error = thrown;
  }
  if (error === undefined) {
    if (code !== undefined) found.broken.push(`${what}: succeeded, instead of a refusal with ${code}`);
    return;
  }
  if (KitError.is(error) && answers.includes(error.code) && code === undefined) return;
  found.effects++;
  if (!KitError.is(error)) found.broken.push(`${what}: an error without a type: ${inspect(error)}`);
  else if (code !== undefined && error.code !== code) found.broken.push(`${what}: ${error.code}, not ${code}`);
  if ((await dumpOf(server, scene)) !== before) found.broken.push(`${what}: failed, and changed something`);
};

/** Each key holds another type, or values of the right type that no kit package wrote; `garbage` is by key. */
export const spoiltKeys = async <S extends Scene>(
  { calls, answers, stage }: Subject<S>,
  garbage: Readonly<Record<string, Readonly<Record<string, Spoil>>>>,
): Promise<Findings> => {
  const found: Findings = { effects: 0, checked: 0, broken: [] };
  await stage(async (server, sceneOf) => {
    let scenes = 0;
    for (const [part, values] of Object.entries(garbage))
      for (const [how, spoil] of Object.entries({ ...otherTypes, ...values }))
        for (const [what, call] of Object.entries(calls)) {
          const scene = await sceneOf(`spoilt-${String(++scenes)}`);
          const key = keyOf(scene, part);
          await server.call("DEL", key);
          await spoil(server, key);
          await probe(server, scene, `${what} with ${how} at ${part}`, call, answers, found);
        }
  });
  return found;
};

/** A newer version has written one key. The calls in `untouched` do not read it. */
export const newerLayout = async <S extends Scene>(
  { calls, answers, stage }: Subject<S>,
  part: string,
  write: Spoil,
  untouched: readonly string[],
): Promise<Findings> => {
  const found: Findings = { effects: 0, checked: 0, broken: [] };
  await stage(async (server, sceneOf) => {
    for (const [what, call] of Object.entries(calls)) {
      const scene = await sceneOf(`newer-${what}`);
      await write(server, keyOf(scene, part));
      const code = untouched.includes(what) ? undefined : "KIT_LAYOUT";
      await probe(server, scene, `${what} on a newer layout`, call, answers, found, code);
    }
  });
  return found;
};

/** A value out of bounds is refused with a typed error, and not sent. */
export const refusedUnsent = async (
  server: RedisServer,
  refusals: Readonly<Record<string, () => Promise<unknown>>>,
  found: Findings,
): Promise<void> => {
  const commands = async (): Promise<number> =>
    Number(/total_commands_processed:(\d+)/.exec(String(await server.call("INFO", "stats")))?.[1]);
  for (const [what, call] of Object.entries(refusals)) {
    const before = await commands();
    found.checked++;
    const error: unknown = await call().then(
      () => undefined,
      (thrown: unknown) => thrown,
    );
    const isTyped = KitError.is(error) || error instanceof TypeError || error instanceof RangeError;
    if (isTyped) found.effects++;
    else
      found.broken.push(
        `${what}: ${error === undefined ? "was taken" : `an error without a type: ${inspect(error).slice(0, 200)}`}`,
      );
    // Reading the count is itself one command.
    if ((await commands()) !== before + 1) found.broken.push(`${what}: was sent to the server`);
  }
};

export const hugeName: string = "n".repeat(513);

/** Names that cannot be a key. */
export const refusedNames: Readonly<Record<string, string>> = {
  "a name of 513 bytes": hugeName,
  "a name of 513 bytes in UTF-8": "\u00e9".repeat(257),
  "a name of 10 MB": "n".repeat(10_000_000),
  "an empty name": "",
  "half a surrogate pair": "\ud800",
};

/** Unusual names that are valid. */
export const oddNames: readonly string[] = [
  "n".repeat(512),
  "{",
  "}",
  "a{b}c",
  ":",
  "\u0000",
  "\n",
  "*",
  "__proto__",
  "\u{1f512}",
  "%7B",
];

/** Texts that no serialised lease can have. */
export const refusedTexts: Readonly<Record<string, string>> = {
  "text of 10^5 levels": `${"[".repeat(1e5)}${"]".repeat(1e5)}`,
  "text of 64 MB": "x".repeat(64_000_000),
  "text with a huge name": JSON.stringify({ name: hugeName }),
};
