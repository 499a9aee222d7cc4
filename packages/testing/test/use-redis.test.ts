import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";

import { eventually, FaultProxy, useRedis } from "../src/index.js";
import { type FakeRunner, fakeRunner } from "./fake-runner.js";

const file = fakeRunner();
const redis = useRedis(file.hooks, { permanentKeys: ["counter:*", /:forever$/] });
beforeAll(() => file.before());
afterAll(() => file.after());

/** Runs a body as a test of the file under test, and returns what its afterEach throws. */
const run = (body: () => unknown) => file.run(body);
const leak = (body: () => unknown) => file.leak(body);

describe("useRedis", () => {
  it("gives each test a prefix and the keys that carry it", async () => {
    const prefixes: string[] = [];
    const body = async () => {
      prefixes.push(redis.prefix);
      await redis.client.set(`${redis.prefix}:b`, "1", "PX", 60_000);
      await redis.client.set(`shop:{${redis.prefix}}:a`, "1", "PX", 60_000);
      await redis.client.set("other", "1", "PX", 60_000);
      expect(await redis.keys()).toEqual([`shop:{${redis.prefix}}:a`, `${redis.prefix}:b`].sort());
    };
    expect([await run(body), await run(body)]).toEqual([undefined, undefined]);
    expect(prefixes[0]).toMatch(/^t-[0-9a-f]{6}$/);
    expect(prefixes[0]).not.toBe(prefixes[1]);
  });

  it("removes the keys of a test after it", async () => {
    let key = "";
    await run(() => redis.client.set((key = `${redis.prefix}:a`), "1", "PX", 60_000));
    expect(await redis.client.exists(key)).toBe(0);
  });

  it("has no prefix, client or server outside its tests", async () => {
    const unused = useRedis(fakeRunner().hooks);
    expect(() => unused.server).toThrow("only inside hooks and tests");
    expect(() => unused.client).toThrow("only inside hooks and tests");
    expect(() => redis.prefix).toThrow("only inside a test");
    expect(() => redis.connect()).toThrow("only inside a test");
  });

  it("closes the clients of connect, also those that the test closed", async () => {
    const statuses: (() => string)[] = [];
    const problem = await run(async () => {
      const [open, closed] = [redis.connect(), redis.connect()];
      await Promise.all([open.ping(), closed.ping()]);
      await closed.quit();
      statuses.push(
        () => open.status,
        () => closed.status,
      );
    });
    expect(problem).toBeUndefined();
    await eventually(() => expect(statuses.map((status) => status())).toEqual(["end", "end"]));
  });

  it("runs what was deferred before it looks, the last first", async () => {
    const order: string[] = [];
    const problem = await run(() => {
      const connection = redis.server.client();
      redis.defer(() => order.push("first given"));
      redis.defer(async () => {
        await connection.quit();
        order.push("last given");
      });
    });
    expect([problem, order]).toEqual([undefined, ["last given", "first given"]]);
  });

  it("fails a test whose deferred closing fails", async () => {
    const problem = await leak(() => redis.defer(() => Promise.reject(new Error("door is stuck"))));
    expect(problem).toContain("an object that did not close: door is stuck");
  });

  it("works with node:test, and fails the test that leaks there", async () => {
    const program = fileURLToPath(new URL("programs/node-test.mjs", import.meta.url));
    // A run inside another test runner's environment would report to that one.
    const { NODE_TEST_CONTEXT: _, ...env } = process.env;
    const child = spawn(process.execPath, ["--test-reporter=tap", program], {
      env,
      stdio: ["ignore", "pipe", "ignore"],
    });
    let output = "";
    child.stdout.on("data", (chunk: Buffer) => (output += chunk.toString()));
    expect(await new Promise((resolve) => child.once("exit", resolve))).toBe(1);
    expect(output).toMatch(/^ok 1 - is clean$/m);
    expect(output).toMatch(/^not ok 2 - leaks$/m);
    expect(output).toContain("an open connection");
  });
});

describe("leak checks", () => {
  it("fail a test that leaves a key without expiry, and name it", async () => {
    let key = "";
    const problem = await leak(async () => {
      key = `${redis.prefix}:jobs`;
      await redis.client.rpush(key, "1");
      await redis.client.set(`${redis.prefix}:fine`, "1", "PX", 60_000);
    });
    expect(problem).toBe(
      `This test left behind:\n  - a list key without expiry: ${key}\n` +
        "If a key needs no expiry, list it in `permanentKeys` of `useRedis`.",
    );
  });

  it("let permanent keys be, of the file and of the test", async () => {
    const problem = await run(async () => {
      redis.permanent("meta");
      const keys = ["counter:", "counter:1", "meta", "x:forever"];
      await Promise.all(keys.map((key) => redis.client.set(`${redis.prefix}:${key}`, "1")));
    });
    expect(problem).toBeUndefined();
    const later = await run(async () => {
      await redis.client.set(`${redis.prefix}:meta`, "1");
      await redis.client.set(`${redis.prefix}:a:counter:1`, "1");
    });
    expect(later).toMatch(/a string key without expiry: \S+:a:counter:1\n.*a string key without expiry: \S+:meta\n/);
  });

  it("wait for what is about to be gone", async () => {
    const problem = await run(async () => {
      const key = `${redis.prefix}:soon`;
      await redis.client.set(key, "1");
      setTimeout(() => void redis.client.del(key), 50);
    });
    expect(problem).toBeUndefined();
  });

  it("fail a test that leaves a connection open, also a duplicate of a client given to it", async () => {
    const connections: { disconnect(): void }[] = [];
    const problem = await leak(async () => {
      const own = redis.connect();
      const duplicates = [own.duplicate(), redis.client.duplicate()];
      connections.push(...duplicates);
      await Promise.all(duplicates.map((connection) => connection.subscribe("news")));
    });
    expect(
      problem?.match(/an open connection \(\d+#\d+ from 127\.0\.0\.1:\d+, name ".*", last command "subscribe"\)/g),
    ).toHaveLength(2);
    for (const connection of connections) connection.disconnect();
    await eventually(async () => expect(String(await redis.server.call("CLIENT", "LIST"))).not.toContain("subscribe"));
    expect(await run(() => {})).toBeUndefined();
  });

  it("fail a test that leaves listeners on a client, shared or own", async () => {
    const listener = () => {};
    const problem = await leak(async () => {
      redis.client.on("ready", listener);
      const own = redis.connect();
      await own.ping();
      own.on("error", listener).on("error", listener);
    });
    redis.client.off("ready", listener);
    expect(problem).toBe(
      `This test left behind:\n  - 1 listener for "ready" on the shared client\n` +
        `  - 2 listeners for "error" on the client of connect() number 1`,
    );
  });

  it("let listeners be that were taken off again", async () => {
    const problem = await run(async () => {
      const own = redis.connect();
      const listener = () => {};
      own.on("error", listener);
      await own.ping();
      own.off("error", listener);
    });
    expect(problem).toBeUndefined();
  });

  /** Waits until the timers of the runner of this very file are over; the one left is that of `eventually`. */
  const quiet = () =>
    eventually(() => expect(process.getActiveResourcesInfo().filter((kind) => kind === "Timeout")).toHaveLength(1));

  /** As long as a timer of a runner at the start of a test might run. */
  const longTest = async () => {
    const until = performance.now() + 130;
    await eventually(() => expect(performance.now()).toBeGreaterThan(until));
  };

  it("fail a test that leaves a timer, even if the runner had one at its start, and only that test", async () => {
    await quiet();
    setTimeout(() => {}, 100);
    let timer: NodeJS.Timeout | undefined;
    try {
      const problem = await leak(() => (timer = setInterval(() => {}, 1_000)));
      expect(problem).toMatch(
        /^This test left behind:\n {2}- 1 timer more than before the test \(active now: .*1 Timeout.*\)$/,
      );
      expect(await run(longTest)).toBeUndefined();
    } finally {
      clearInterval(timer);
    }
  });

  describe("of another file", () => {
    let other: FakeRunner;
    const timers: NodeJS.Timeout[] = [];
    const leakTimer = () => timers.push(setInterval(() => {}, 1_000));

    beforeEach(async () => {
      // Anew for each test: a file remembers how many timers rest in it.
      other = fakeRunner();
      useRedis(other.hooks);
      await quiet();
      await other.before();
    });
    afterEach(async () => {
      for (const timer of timers.splice(0)) clearInterval(timer);
      await other.after();
    });

    it("let timers be that were there before its first test", async () => {
      leakTimer();
      expect(await other.run(() => {})).toBeUndefined();
      expect(await other.run(longTest)).toBeUndefined();
    });

    it("fail a test that leaves a timer while one of the runner ends", async () => {
      await other.run(() => {});
      // oxlint-disable-next-line kit/no-sleep -- The timer is what the test is about.
      const ofRunner = new Promise<void>((resolve) => void setTimeout(resolve, 100));
      const problem = await other.leak(async () => {
        leakTimer();
        await ofRunner;
      });
      expect(problem).toContain("1 timer more than before the test");
    });

    it("fail a test that leaves a timer after the one that another test left has ended", async () => {
      expect(await other.leak(leakTimer)).toContain("1 timer more than before the test");
      clearInterval(timers[0]);
      setTimeout(() => {}, 100);
      expect(await other.leak(leakTimer)).toContain("1 timer more than before the test");
    });
  });

  it("blame no `useRedis` for a client of another that connects again and again", async () => {
    const other = fakeRunner();
    useRedis(other.hooks);
    await other.before();
    await other.run(() => {});
    const problem = await leak(async () => {
      const problemOfOther = await other.leak(async () => {
        const proxy = await FaultProxy.start({ port: redis.server.nodes[0]!.port });
        const client = redis.connect({ port: proxy.port, retryStrategy: () => 5_000 });
        await client.ping();
        await proxy.close();
      });
      expect(problemOfOther).toBeUndefined();
    });
    expect(problem).toBeUndefined();
    await other.after();
  });

  it("fail a test that leaves the server paused or killed, and bring it back", async () => {
    expect(await run(() => redis.server.nodes[0]?.pause())).toMatch(/a paused server: 127\.0\.0\.1:\d+/);
    expect(await run(() => redis.server.nodes[0]?.kill())).toMatch(/a stopped server: 127\.0\.0\.1:\d+/);
    expect(await run(async () => expect(await redis.client.ping()).toBe("PONG"))).toBeUndefined();
  });

  it("stay calm when a test cuts all connections or restarts the server", async () => {
    const cut = await run(async () => {
      await redis.connect().ping();
      await redis.server.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "no").catch(() => {});
    });
    const restarted = await run(async () => {
      await redis.server.nodes[0]?.kill();
      await redis.server.nodes[0]?.start();
    });
    expect([cut, restarted]).toEqual([undefined, undefined]);
  });

  it("fail a test that closes the shared client, and open it again", async () => {
    expect(await run(() => redis.client.quit())).toContain("a closed shared client");
    expect(await run(async () => expect(await redis.client.ping()).toBe("PONG"))).toBeUndefined();
  });
});
