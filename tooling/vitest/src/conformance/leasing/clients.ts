import { describe, expect, it } from "vitest";
import { rejection } from "../../promises.js";
import { inboxes } from "../../servers.js";
import { promptMs, timed } from "../../time.js";
import type { Client } from "../ground.js";
import { type Leasing, next, proxied } from "./leasing.js";

/** Borrowed clients: their second connection, their rights, and their waiters after a lost connection. */
export const describeLeaseClients = (leasing: Leasing): void => {
  const { redis, eventually, startRedis } = leasing.ground;
  const subscribers = (): Promise<number> => inboxes(redis.server.nodes);
  const until = async (wanted: number): Promise<void> =>
    await eventually(async () => expect(await subscribers()).toBe(wanted));
  const retrying = (delayMs: number): object => redis.connect({ retryStrategy: () => delayMs });
  const kill = (type: string): Promise<unknown> => redis.server.call("CLIENT", "KILL", "TYPE", type);

  describe("a borrowed client", () => {
    it("opens no second connection before the first wait", async () => {
      const leaser = leasing.on(redis.connect());
      const held = await leaser.acquire();
      expect(await leaser.tryAcquire()).toBeNull();
      await rejection(leaser.acquire({ waitMs: 0 }));
      await held.release();
      expect(await subscribers()).toBe(0);
    });

    it("is served by one subscriber connection, however many objects work on it", async () => {
      const client = redis.connect();
      const [one, two] = [leasing.working(client), leasing.working(client, "another")];
      await one.works();
      await two.works();
      expect(await subscribers()).toBe(1);
      await one.close();
      await two.works();
      expect(await subscribers()).toBe(1);
      await two.close();
      await until(0);
    });

    it("lets the second object on it hand over as the first one does", async () => {
      const client = redis.connect();
      const first = leasing.on(client);
      const held = await first.acquire();
      const handedOver = await first.enqueue();
      await held.release();
      await (await handedOver.promise).release();
      const second = leasing.on(client);
      const holder = await second.acquire();
      const dead = await leasing.spawn();
      dead.acquire().catch(() => undefined);
      await leasing.untilWaiting(1);
      const waiter = await second.enqueue();
      await dead.kill();
      await until(1);
      await holder.release();
      expect((await timed(waiter.promise)).awakeMs).toBeLessThan(promptMs);
    });
  });

  describe("isolate", () => {
    it("replaces an unresponsive connection", async () => {
      const leaser = leasing.make({ isolate: true, deadlineMs: 1_000 });
      await (await leaser.acquire()).release();
      const [node] = redis.server.nodes;
      node!.pause();
      expect(await rejection(leaser.tryAcquire())).toMatchObject({ code: "KIT_UNKNOWN_OUTCOME" });
      node!.resume();
      const held = await eventually(async () => {
        const got = await leaser.tryAcquire();
        if (!got) throw new Error("still held");
        return got;
      });
      expect(await held.release()).toBe("released");
    });
  });

  describe("an ACL user", () => {
    const limited = async (...rules: readonly string[]): Promise<object> => {
      await redis.server.call("ACL", "SETUSER", "limited", "reset", "on", ">secret", "~*", ...rules);
      redis.defer(() => redis.server.call("ACL", "DELUSER", "limited"));
      // Otherwise ioredis prints that its ready check was refused.
      return redis.connect({ username: "limited", password: "secret", enableReadyCheck: false });
    };

    it.each([
      ["channels, by polling", ["+@all", "resetchannels"]],
      ["PUBLISH, by polling", ["+@all", "&*", "-publish"]],
      ["INFO, as on a Cluster", ["+@all", "&*", "-info"]],
    ] as const)("is served without rights to %s", async (_what, rules) => {
      await leasing.working(await limited(...rules)).works();
    });

    it("that may not subscribe waits beside one that may", async () => {
      const unreachable = leasing.on(await limited("+@all", "resetchannels"));
      const leaser = leasing.make();
      const holder = await leaser.acquire();
      const first = await unreachable.enqueue();
      const second = await leaser.enqueue();
      await holder.release();
      await (await timed(second.promise)).value.release();
      const { awakeMs, value } = await timed(first.promise);
      expect(awakeMs).toBeLessThan(promptMs);
      await value.release();
    });

    it("without scripts gets a typed error without the command's arguments", async () => {
      const leaser = leasing.on(await limited("+@all", "&*", "-evalsha", "-eval"));
      const error = (await rejection(leaser.acquire({ holder: "canary" }))) as Error;
      expect(error).toMatchObject({ code: "KIT_NO_PERMISSION", retryable: false });
      expect(JSON.stringify(error, Object.getOwnPropertyNames(error))).not.toContain("canary");
    });
  });

  describe("a client whose connections are killed while a caller waits", () => {
    it("loses no place in the queue", async () => {
      const leaser = leasing.on(retrying(20));
      const holder = await leasing.make().acquire();
      const waiter = await leaser.enqueue();
      for (const type of ["pubsub", "normal", "pubsub"]) {
        await kill(type);
        await until(1);
      }
      await leasing.untilWaiting(1);
      const granted = next(leaser, "acquired");
      await holder.release();
      expect(await granted).toMatchObject(leasing.acquired);
      expect((await timed(waiter.promise)).awakeMs).toBeLessThan(promptMs);
    });

    it("gets a timeout with the lost connection as its cause if its wait ends first", async () => {
      const { holder } = await leasing.make().acquire();
      // Closing it waits for as long.
      const leaser = leasing.on(retrying(60_000), { deadlineMs: 3_000 });
      await leaser.inspect();
      expect(await rejection(leaser.acquire({ waitMs: 1_000 }))).not.toHaveProperty("cause");
      const waiter = await leaser.enqueue({ waitMs: 3_000 });
      await kill("normal");
      expect(await rejection(waiter.promise)).toMatchObject({
        ...leasing.timeoutOf(holder),
        message: expect.stringMatching(
          new RegExp(`${leasing.lastSeen} at the last reply; at the last try Redis was unreachable\\)$`),
        ) as unknown,
        cause: { code: "KIT_UNAVAILABLE" },
      });
    });

    it("receives a grant whose push was lost with the connection", async () => {
      const leaser = leasing.on(retrying(20));
      for (let round = 0; round < 10; round++) {
        const holder = await leasing.make().acquire();
        const waiter = await leaser.enqueue();
        const killed = kill("pubsub");
        await holder.release();
        await killed;
        // The next heartbeat would come after five seconds.
        const { awakeMs, value } = await timed(waiter.promise);
        expect(awakeMs).toBeLessThan(promptMs);
        await value.release();
        await until(1);
      }
    });
  });

  describe("an outage", () => {
    it.each([
      ["of a waiter", true],
      ["of a holder", false],
    ])("%s is reported once, and once more when it is over", async (_whose, isWaiting) => {
      const { proxy, connect } = await proxied(leasing.ground);
      const leaser = leasing.on(connect(), { deadlineMs: 200 });
      const codes: string[] = [];
      leaser.on("error", (error) => codes.push((error as { code: string }).code));
      const held = await eventually(() => (isWaiting ? leasing.make() : leaser).acquire({ leaseMs: 60_000 }));
      const waiter = isWaiting ? await leaser.enqueue() : undefined;
      // It is due for renewal soon.
      if (!isWaiting) await held.extend(9_000);
      proxy.refuse = true;
      proxy.resetAll();
      await eventually(() => expect(codes).toHaveLength(1), { timeoutMs: 20_000 });
      proxy.refuse = false;
      await eventually(() => expect(codes.at(-1)).toBe("KIT_RECOVERED"), { timeoutMs: 20_000 });
      expect(codes).toEqual([expect.stringMatching(/^KIT_(UNAVAILABLE|UNKNOWN_OUTCOME)$/), "KIT_RECOVERED"]);
      await held.release();
      await (await waiter?.promise)?.release();
    });
  });

  describe("an error that is neither kit's nor the server's", () => {
    it("is reported as such", async () => {
      const client = redis.connect() as { call?: unknown };
      const leaser = leasing.on(client);
      const codes: string[] = [];
      leaser.on("error", (error) => codes.push((error as { code: string }).code));
      const held = await leaser.acquire();
      client.call = () => {
        throw new TypeError("a broken client");
      };
      await rejection(held.release());
      expect(codes[0]).toBe("KIT_UNEXPECTED");
      delete client.call;
      expect(await held.release()).toBe("released");
    });
  });

  describe("a client without a connection", () => {
    it("gets KIT_UNAVAILABLE within waitMs, and not a timeout", async () => {
      const client = retrying(60_000) as Client;
      // Longer than what is prompt. Closing it waits for as long.
      const leaser = leasing.on(client, { deadlineMs: promptMs + 500 });
      await leaser.acquire({ renew: false });
      const closed = new Promise((resolve) => client.once("close", resolve as () => void));
      await kill("normal");
      await closed;
      const { awakeMs, value } = await timed(rejection(leaser.acquire({ waitMs: 100 })));
      expect(value).toMatchObject({ code: "KIT_UNAVAILABLE" });
      expect(awakeMs).toBeLessThan(promptMs);
    });
  });

  describe("a client of one node of a Cluster that is no Cluster client", () => {
    it("is refused at once where another node serves the name", async () => {
      const server = await startRedis({ mode: "cluster" });
      redis.defer(() => server.stop());
      const key = leasing.heldKey(leasing.name);
      const answers = await Promise.all(
        server.nodes.map(async (node) => String(await node.call("EXISTS", key).catch((error: unknown) => error))),
      );
      const other = server.nodes[answers.findIndex((answer) => answer.includes("MOVED"))]!;
      const leaser = leasing.on(redis.connect({ port: other.port }));
      const refusal = {
        code: "KIT_CLUSTER",
        retryable: false,
        message: expect.stringContaining("Use a Cluster client") as unknown,
      };
      expect(await rejection(leaser.acquire({ waitMs: 3_000 }))).toMatchObject(refusal);
      expect(await rejection(leaser.acquire())).toMatchObject(refusal);
      expect(await rejection(leaser.tryAcquire())).toMatchObject(refusal);
    });
  });

  describe("a server that is silent when a wait ends", () => {
    it("is the cause of the timeout", async () => {
      const { holder } = await leasing.on(redis.connect()).acquire({ leaseMs: 1_400, renew: false });
      const client = redis.connect();
      // From here on there is a connection, whose start may have taken a while.
      await leasing.on(client).inspect();
      const leaser = leasing.on(client, { deadlineMs: 1_000 });
      // A heartbeat fails within a second, or two where this process stood still meanwhile.
      const waiter = await leaser.enqueue({ waitMs: 5_000 });
      await redis.server.call("CLIENT", "PAUSE", "6000", "ALL");
      expect(await rejection(waiter.promise)).toMatchObject({
        ...leasing.timeoutOf(holder),
        cause: { code: expect.stringMatching(/^KIT_(UNAVAILABLE|UNKNOWN_OUTCOME)$/) as unknown },
      });
    });
  });
};

/** Two processes, and connections that are killed; for the smoke file that runs with the other major of ioredis. */
export const describeLeasingSmoke = (leasing: Leasing): void => {
  const { redis, eventually } = leasing.ground;

  it("hands over between processes", async () => {
    const held = await leasing.make().acquire();
    const peer = await leasing.spawn();
    const acquiring = peer.acquire();
    await leasing.untilWaiting(1);
    await held.release();
    expect(await peer.release(await acquiring)).toBe("released");
  });

  it("loses neither a lease nor a place in the queue when connections are killed", async () => {
    const leaser = leasing.on(redis.connect({ retryStrategy: () => 20 }));
    const held = await leaser.acquire();
    const waiter = await leaser.enqueue();
    for (const type of ["pubsub", "normal"]) {
      await redis.server.call("CLIENT", "KILL", "TYPE", type);
      await eventually(async () => expect(await inboxes(redis.server.nodes)).toBe(1));
    }
    await leasing.untilWaiting(1);
    const granted = next(leaser, "acquired");
    expect(await held.release()).toBe("released");
    expect(await granted).toMatchObject(leasing.acquired);
    await (await waiter.promise).release();
  });
};
