import { tracingChannel } from "node:diagnostics_channel";
import { expect, it } from "vitest";
import { exposures } from "../exposure.js";
import { tappedTokens, withoutOp } from "../secrets.js";
import { canary, type Conforming } from "./description.js";
import { type Fixture, keysOf, type Made, type Outcome, outcomeOf, type Ready } from "./ground.js";

/** Begins, or ends, a trouble that makes calls fail. */
type Trouble = (
  server: { call(command: string, ...args: string[]): Promise<unknown> },
  prefix: string,
) => Promise<unknown>;

const troubles: Readonly<Record<string, readonly [begin: Trouble, end?: Trouble]>> = {
  "keys of another type": [
    async (server, prefix) => {
      const keys = (await server.call("KEYS", `${prefix}*`)) as string[];
      for (const key of keys) {
        await server.call("DEL", key);
        await server.call("RPUSH", key, canary);
      }
    },
  ],
  "values that it did not write": [
    async (server, prefix) => {
      for (const key of (await server.call("KEYS", `${prefix}*`)) as string[]) {
        const type = await server.call("TYPE", key);
        if (type === "string") await server.call("SET", key, canary);
        if (type !== "hash") continue;
        for (const field of (await server.call("HKEYS", key)) as string[])
          await server.call("HSET", key, field, canary);
      }
    },
  ],
  "no memory": [
    (server) => server.call("CONFIG", "SET", "maxmemory", "1"),
    (server) => server.call("CONFIG", "SET", "maxmemory", "0"),
  ],
  "too few replicas": [
    (server) => server.call("CONFIG", "SET", "min-replicas-to-write", "1"),
    (server) => server.call("CONFIG", "SET", "min-replicas-to-write", "0"),
  ],
  "a replica": [
    (server) => server.call("REPLICAOF", "127.0.0.1", "1"),
    (server) => server.call("REPLICAOF", "NO", "ONE"),
  ],
  "no data to read": [
    async (server) => {
      await server.call("REPLICAOF", "127.0.0.1", "1");
      await server.call("CONFIG", "SET", "replica-serve-stale-data", "no");
    },
    async (server) => {
      await server.call("REPLICAOF", "NO", "ONE");
      await server.call("CONFIG", "SET", "replica-serve-stale-data", "yes");
    },
  ],
  "no permission": [
    (server) => server.call("ACL", "SETUSER", "default", "-evalsha", "-eval", "-@read"),
    (server) => server.call("ACL", "SETUSER", "default", "+@all"),
  ],
};

/** No error, event or trace shows a password, a payload or a stored text. */
export const secrets = (fixture: Fixture, object: Conforming): void => {
  const { redis, description, ground } = fixture;

  it("shows no secret in errors, events and traces under any trouble", async () => {
    const password = `${canary}-pass`;
    const server = await ground.startRedis({ password });
    redis.defer(() => server.stop());
    const proxy = await ground.FaultProxy.start({ port: server.nodes[0]!.port });
    redis.defer(() => proxy.close());
    const url = `redis://:${password}@127.0.0.1:${String(proxy.port)}`;
    const connection = await fixture.connectByUrl(url);
    const tokens = description.hidesTokens ? tappedTokens(connection) : new Set<string>();

    /** The contents of errors, events and traces, with their sources. */
    const told: (readonly [where: string, what: object])[] = [];
    const overhear = (made: Made, where: string): void => {
      const { emit } = made as { emit?: (...facts: unknown[]) => unknown };
      if (!emit) return;
      Object.defineProperty(made, "emit", {
        value: (...facts: unknown[]) => {
          told.push([where, facts]);
          return emit.apply(made, facts);
        },
      });
    };
    const channels = new Set(Object.values(object.calls).flatMap(({ trace }) => trace?.[0] ?? []));
    for (const name of channels) {
      const channel = tracingChannel<object, object>(name);
      // The result belongs to the caller, so it may contain secrets.
      const keep = (context: object): unknown => told.push([name, { ...context, result: undefined }]);
      const subscribers = { start: keep, end: keep, asyncStart: keep, asyncEnd: keep, error: keep };
      channel.subscribe(subscribers);
      redis.defer(() => channel.unsubscribe(subscribers));
    }
    const failed = (where: string, outcome: Outcome): boolean => {
      if ("error" in outcome) told.push([where, outcome.error as object]);
      return "error" in outcome;
    };
    const readyAt = async (key: string): Promise<{ readonly ready: Ready; readonly prefix: string }> => {
      // On a busy machine the preparation may exceed the deadline.
      const made = await ground.eventually(async () => {
        const prefix = fixture.prefix();
        return { prefix, ready: await fixture.ready(object, key, connection, { prefix, deadlineMs: 400 }) };
      });
      overhear(made.ready.object, key);
      return made;
    };
    const closeAll = async (readies: readonly { readonly ready: Ready }[]): Promise<void> => {
      if (object.hasNoClose) return;
      await Promise.all(readies.map(({ ready }) => ready.object.close({ timeoutMs: 0 })));
    };
    const keys = keysOf(object, ({ waits, persists }) => !waits && !persists);

    let failures = 0;
    for (const [trouble, [begin, end]] of Object.entries(troubles)) {
      const readies = await Promise.all(
        keys.map(async (key) => {
          const first = await readyAt(key);
          failed(key, await first.ready.run());
          return first;
        }),
      );
      for (const { prefix } of readies) await begin(server, prefix);
      // A wait without a limit would last as long as the trouble.
      const limited = ({ options = {}, required }: Ready["call"]): object | undefined =>
        "waitMs" in options ? { ...required, waitMs: 1_000 } : undefined;
      const pending = Object.fromEntries(
        readies.map(({ ready }) => [ready.key, ready.run(limited(ready.call))] as const),
      );
      const settled = await fixture.all(pending);
      for (const [key, outcome] of settled) if (failed(`${key}, ${trouble}`, outcome)) failures++;
      await end?.(server, "");
      await closeAll(readies);
    }
    // At least one trouble made calls fail. Not all do, since a package that only reads tolerates some.
    expect(failures).toBeGreaterThan(0);

    // The connection logs out, as after a change of the password.
    await ground.eventually(() => connection.call("RESET"));
    const strangers = keys.filter((key) => !object.calls[key]!.prepare);
    await Promise.all(strangers.map(async (key) => failed(`${key}, no login`, await (await readyAt(key)).ready.run())));
    await ground.eventually(() => connection.call("AUTH", password));

    const readies = await Promise.all(keys.map((key) => readyAt(key)));
    proxy.down.hole = true;
    await Promise.all(readies.map(async ({ ready }) => failed(`${ready.key}, silence`, await ready.run())));
    proxy.heal();
    await closeAll(readies);
    for (const { ready } of readies) failed(`${ready.key}, closed`, await ready.run());
    const secret = { password, toString: () => password, toJSON: () => password };
    for (const option of [...Object.keys(object.options), "password"])
      failed(`the option ${option}`, await outcomeOf(() => object.make(connection as never, { [option]: secret })));
    for (const key of keys) {
      const { ready } = await readyAt(key);
      for (const option of Object.keys(ready.call.options ?? {}))
        failed(`${key}, ${option}`, await ready.run({ [option]: secret }));
      if (!object.hasNoClose) await ready.object.close({ timeoutMs: 0 });
    }
    failed("no client", await outcomeOf(() => object.make(secret as never, {})));
    const shownBy = told.map(([where, what]) => [where, exposures(withoutOp(what), [canary, ...tokens])] as const);
    expect(tokens.size > 0).toBe(description.hidesTokens === true);
    expect(shownBy.filter(([, shown]) => shown.length > 0)).toEqual([]);
    expect(told.length).toBeGreaterThan(20);
    const made = object.hasNoClose ? {} : fixture.make(object, connection);
    expect(exposures(made, [canary, ...tokens])).toEqual([]);
  });
};
