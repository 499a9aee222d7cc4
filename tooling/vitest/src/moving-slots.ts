import { createHash } from "node:crypto";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { type Node, slotMoves } from "./servers.js";

/** The parts of a script that the check uses. */
interface Script {
  readonly name: string;
  readonly source: string;
  readonly keys: readonly string[];
}

interface Ground {
  readonly server: { readonly nodes: readonly (Node & { readonly port: number })[] };
  readonly client: object;
}

/** A command of ioredis, with what its reply is handed to. */
interface Command {
  readonly name: string;
  readonly args: unknown[];
  resolve: (reply: unknown) => void;
  reject: (error: Error) => void;
  readonly promise: Promise<unknown>;
  getSlot(): number | null;
}

/** A connection of ioredis. */
interface Connection {
  readonly status: string;
  readonly options: { readonly port?: number };
  readonly stream: { cork(): void; uncork(): void };
}

type Send = (this: Connection, command: Command, stream?: unknown) => unknown;

/**
 * Put around a script, this finds a call that touches a key which has existed and is gone. While its slot is MIGRATING, a
 * server fails such a call ("non local key"), and the script ends after a part of its writes. The same for a key that is
 * touched after a message was published: the message would be out, and the call might fail. So it finds them in every state
 * of the keys and on every server; a server runs a script on such a slot only if all its keys exist.
 *
 * The reply becomes a list of what was found, and the script's own. One line, so that errors name the script's own lines.
 */
const before = `
local found = {}
local redis = (function(server)
  local places, existed, isOut, isChecked = {}, {}, false, true
  for place, key in ipairs(KEYS) do
    places[key], existed[key] = place, server.call('EXISTS', key) == 1
    isChecked = isChecked and (existed[key] or not WHOLE)
  end
  local function check(command, ...)
    for i = 1, select('#', ...) do
      local key = select(i, ...)
      if existed[key] ~= nil then
        local call = command .. ' ' .. places[key]
        if isOut then found[#found + 1] = call .. ' after PUBLISH' end
        local exists = server.call('EXISTS', key) == 1
        if isChecked and existed[key] and not exists then found[#found + 1] = call .. ' when it is gone' end
        existed[key] = exists
      end
    end
    isOut = isOut or string.upper(command) == 'PUBLISH'
  end
  return setmetatable({
    call = function(...) check(...) return server.call(...) end,
    pcall = function(...) check(...) return server.pcall(...) end,
  }, { __index = server })
end)(redis)
local function script()`.replace(/\s+/g, " ");
const behind = `
end
local reply = script()
if type(reply) == 'table' and reply.err then return reply end
return { found, reply or false }`;

/** The replies by which a server refuses a script as a whole. */
const refusedWhole = /^(?:ASK|TRYAGAIN)\b/;

/** A script with a key that never exists needs a slot that does not move, and may touch what it has emptied. */
const isAlwaysRefused = ({ keys }: Script): boolean => keys.includes("absent");

const checked = (source: string, isWhole: boolean): string =>
  `${before.trim().replace("WHOLE", String(isWhole))} ${source}${behind}`;
const shaOf = (source: string): string => createHash("sha1").update(source).digest("hex");

/** The name of an operand: `keys` of `...keys[meta heads]`. */
const plainName = (operand: string): string => operand.replace(/^\.\.\.|\[.*$/g, "");

/** The scripts of a module, also those that are the member `script` of what it exports. */
const scriptsOf = (module: Readonly<Record<string, unknown>>): Script[] =>
  Object.values(module)
    .flatMap((value) => [value, (value as { readonly script?: unknown } | undefined)?.script])
    .filter((value): value is Script => {
      const { name, source } = (value ?? {}) as Partial<Script>;
      return typeof name === "string" && typeof source === "string";
    });

/** The scripts that ran with all their keys on a slot that was moving, and what went wrong. */
class Watch {
  readonly moved = new Set<string>();
  readonly faults = new Set<string>();
  readonly #scripts = new Map<string, Script>();
  readonly #checked = new Map<string, string>();
  readonly #ids = new Map<number, string>();
  readonly #seen = new WeakSet<Command>();
  readonly #isWhole: boolean;

  constructor(scripts: readonly Script[], isWhole: boolean) {
    this.#isWhole = isWhole;
    for (const script of scripts) {
      const sha = shaOf(checked(script.source, isWhole));
      this.#scripts.set(sha, script);
      this.#checked.set(shaOf(script.source), sha);
    }
  }

  async meet(nodes: Ground["server"]["nodes"]): Promise<void> {
    for (const node of nodes) this.#ids.set(node.port, String(await node.call("CLUSTER", "MYID")));
  }

  /** Sends a command; a script as its checked text, and, on a Cluster, while its slot is MIGRATING. */
  send(connection: Connection, send: Send, command: Command, stream: unknown): unknown {
    const go = (): unknown => send.call(connection, command, stream);
    const script = this.#seen.has(command) ? undefined : this.#prepare(command);
    if (!script) return go();
    this.#seen.add(command);
    const to = this.#otherThan(connection.options.port);
    const slot = to === undefined ? null : command.getSlot();
    const isMoving = slot !== null && !stream && connection.status === "ready" && slotMoves.running === 0;
    this.#listen(command, script, isMoving, go);
    if (!isMoving) return go();
    const set = (...state: readonly string[]): void => {
      const args = ["SETSLOT", String(slot), ...state];
      const setting = new (command.constructor as new (name: string, args: string[]) => Command)("cluster", args);
      // A node that does not serve the slot refuses. It refuses the script, too, which then goes to the right one.
      setting.promise.catch(() => undefined);
      send.call(connection, setting);
    };
    // In one write, so that the server runs them together.
    connection.stream.cork();
    set("MIGRATING", to!);
    const reply = go();
    set("STABLE");
    connection.stream.uncork();
    return reply;
  }

  /** Returns the script that a command runs, if it is one of ours. */
  #prepare({ name, args }: Command): Script | undefined {
    const text = String(args[0]);
    if (name === "evalsha") args[0] = this.#checked.get(text) ?? text;
    if (name === "eval" && this.#checked.has(shaOf(text))) args[0] = checked(text, this.#isWhole);
    return this.#scripts.get(name === "eval" ? shaOf(String(args[0])) : String(args[0]));
  }

  #otherThan(port: number | undefined): string | undefined {
    if (port === undefined || !this.#ids.has(port)) return undefined;
    return [...this.#ids].find(([other]) => other !== port)?.[1];
  }

  #listen(command: Command, script: Script, isMoving: boolean, again: () => unknown): void {
    const { resolve, reject } = command;
    let isRefused = false;
    command.resolve = (raw) => {
      const [found, reply] = raw as [unknown[], unknown];
      const hasRunThere = isMoving && !isRefused;
      if (!isAlwaysRefused(script)) for (const fault of found) this.#add(script, String(fault));
      else if (hasRunThere) this.#add(script, "runs on a slot that moves, though it needs one that does not");
      if (hasRunThere) this.moved.add(script.name);
      resolve(reply);
    };
    command.reject = (error) => {
      if (error.message.includes("non local key")) this.#add(script, "a call fails on a slot that moves");
      if (!isMoving || isRefused || !refusedWhole.test(error.message)) return reject(error);
      isRefused = true;
      again();
    };
  }

  /** `fault` has a key by its place. */
  #add({ name, keys }: Script, fault: string): void {
    const named = fault.replace(/ \d+/, (place) => ` ${plainName(keys[Number(place) - 1] ?? keys.at(-1)!)}`);
    this.faults.add(`${name}: ${named}`);
  }
}

/** A call of a script that no test of the suite makes while all its keys exist. */
export interface RareCall {
  readonly script: Script;
  readonly args: readonly (string | number)[];
  /** Writes the keys of which the call makes something. The others get a value of the type that the header says. */
  readonly seed?: () => Promise<unknown>;
}

/** Keys by the names of operands; several of an operand that takes any number. */
type Keys = Readonly<Record<string, unknown>>;

/** Commands of ioredis. */
interface Writer {
  call(command: string, ...args: (string | number)[]): Promise<unknown>;
  eval(source: string, keys: number, ...operands: (string | number)[]): Promise<unknown>;
}

const spare: Readonly<Record<string, readonly string[]>> = {
  hash: ["HSET", "spare", "0"],
  list: ["RPUSH", "spare"],
  zset: ["ZADD", "9000000000000", "spare"],
  set: ["SADD", "spare"],
  stream: ["XADD", "1-1", "spare", ""],
  string: ["SET", "0"],
};

const runWithAllKeys = async (redis: Ground, { script, args, seed }: RareCall, all: Keys): Promise<void> => {
  const client = redis.client as Writer;
  const keys = script.keys.flatMap((name) => [all[plainName(name)]].flat().map(String));
  await seed?.();
  const types = [...script.source.matchAll(/^-- KEYS\[(?:\d+|n)\]\s+\S+\s+(\w+)/gm)].map(([, type = ""]) => type);
  for (const [place, key] of keys.entries()) {
    if ((await client.call("EXISTS", key)) !== 0) continue;
    const [command = "SET", ...values] = spare[types[place] ?? ""] ?? spare["string"]!;
    await client.call(command, key, ...values);
    await client.call("PEXPIRE", key, 60_000);
  }
  await client.eval(script.source, keys.length, ...keys, ...args);
};

interface ClusterClient {
  nodes(role: "master"): object[];
  ping(): Promise<unknown>;
}

/** A connection of a Cluster client. After its connections were killed, it has none until a command needs it. */
const aNodeOf = async (client: ClusterClient): Promise<object> =>
  await vi.waitFor(async () => {
    await client.ping();
    const [node] = client.nodes("master");
    if (!node) throw new Error("the Cluster client has no connection");
    return node;
  });

interface MovingSlots {
  /**
   * A test for the end of a suite on a Cluster. It makes the `rare` calls, and expects that then all scripts have run but those
   * that another file runs.
   */
  itRanAll(keys?: () => Keys, rare?: () => readonly RareCall[], elsewhere?: readonly string[]): void;
  /** The same of the scripts of these names, for a suite of a part of a package. */
  itRan(names: readonly string[]): void;
}

/**
 * Runs the scripts of a suite's clients as on slots that are moving. The suite fails if a script touches a key that it has
 * made vanish, or any key after it has published. On a Cluster each script is sent while its slot is MIGRATING: if all its
 * keys exist it runs there, otherwise the server refuses it as a whole and it is sent again. Call it behind `useRedis`.
 *
 * @param module The module with all scripts of the package.
 * @param isWhole Whether keys that vanish count only in calls that find all their keys, as they do on a slot that moves. For
 * scripts that see to it only there.
 */
export const onMovingSlots = (
  redis: Ground,
  module: Readonly<Record<string, unknown>>,
  isWhole = false,
): MovingSlots => {
  const scripts = scriptsOf(module);
  const watch = new Watch(scripts, isWhole);
  let restore = (): void => undefined;
  beforeAll(async () => {
    const client = redis.client as ClusterClient | object;
    if ("nodes" in client) await watch.meet(redis.server.nodes);
    const prototype = Object.getPrototypeOf("nodes" in client ? await aNodeOf(client) : client) as {
      sendCommand: Send;
    };
    const { sendCommand } = prototype;
    prototype.sendCommand = function (command, stream) {
      return watch.send(this, sendCommand, command, stream);
    };
    restore = () => Object.assign(prototype, { sendCommand });
  });
  afterAll(() => {
    restore();
    expect([...watch.faults].toSorted(), "a script fails after a part of its writes while its slot moves").toEqual([]);
  });
  return {
    itRanAll: (keys = () => ({}), rare = () => [], elsewhere = []) =>
      it("has run every script with all its keys on a slot that was moving", async () => {
        const failed: string[] = [];
        for (const call of rare())
          await runWithAllKeys(redis, call, keys()).catch((error: unknown) =>
            failed.push(`${call.script.name}: ${String(error)}`),
          );
        expect(failed).toEqual([]);
        const wanted = scripts.filter((script) => !isAlwaysRefused(script)).map(({ name }) => name);
        const missing = wanted.filter((name) => !watch.moved.has(name) && !elsewhere.includes(name));
        expect(missing, "no call of these scripts found all its keys: add one to the rare calls of itRanAll").toEqual(
          [],
        );
      }),
    itRan: (names) =>
      it("has run its scripts with all their keys on a slot that was moving", () => {
        expect(names.filter((name) => !watch.moved.has(name))).toEqual([]);
      }),
  };
};
