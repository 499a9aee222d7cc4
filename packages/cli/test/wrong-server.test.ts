import { connect } from "@kit/core";
import { createLock } from "@kit/lock";
import { createQueue } from "@kit/queue";
import { eventually } from "@kit/testing";
import { describe, expect, it, onTestFinished } from "vitest";
import { knownPackages } from "../src/packages.js";
import { kit, programBeside, started } from "./harness.js";

const program = programBeside(...knownPackages);

describe("the plain address of one node of a Cluster", () => {
  it("is said to have a part only, and replaces the server's MOVED by the address of the Cluster", async () => {
    const server = await started({ mode: "cluster" });
    const redis = await connect({ url: server.url, deadlineMs: 30_000 });
    onTestFinished(() => redis.close());
    const lock = createLock(redis, { leaseMs: 600_000, renew: false });
    onTestFinished(() => lock.close({ timeoutMs: 0 }));
    const names = Array.from({ length: 12 }, (_, index) => `item:${String(index)}`);
    await Promise.all(names.map((name) => lock.acquire(name)));
    const node = `127.0.0.1:${String(server.nodes[0]!.port)}`;
    const url = `redis://${node}`;
    const hint = `Use --url redis+cluster://${node},…`;
    const warning = `kit: the address names one Cluster node, which has part of the data. ${hint}\n`;
    const listed = await kit(["list", "locks", "--url", url]);
    expect(listed).toEqual({ code: 0, stdout: expect.stringMatching(/^locks {2}\d+\n/), stderr: warning });
    const elsewhere = names.find((name) => !new RegExp(`^${name} `, "m").test(listed.stdout));
    const { code, stderr } = await kit(["inspect", "lock", elsewhere!, "--url", url]);
    expect([code, stderr]).toEqual([2, `${warning}kit: Another Cluster node has this key. ${hint}\n`]);
    expect((await kit(["list", "locks", "--url", server.url])).stderr).toBe("");
  });
});

describe("the address of a replica", () => {
  it("leads to the address of its master when a command would change something", async () => {
    const [master, replica] = await Promise.all([started(), started()]);
    const [at, copy] = [master.nodes[0]!, replica.nodes[0]!];
    const redis = await connect({ url: master.url });
    onTestFinished(() => redis.close());
    await using queue = createQueue(redis, "mail");
    await queue.add("welcome", 1);
    await copy.call("REPLICAOF", "127.0.0.1", String(at.port));
    await eventually(async () => expect(await copy.call("EXISTS", "kit:queue:{mail}:meta")).toBe(1));
    const { code, stderr } = await kit(["queue", "pause", "mail", "--url", replica.url], { program });
    const said = `The server is a read-only replica. Nothing was changed. Use the address of its master, 127.0.0.1:${String(at.port)}`;
    expect([code, stderr]).toEqual([2, `kit: ${said}\n`]);
  });
});

describe("the default address", () => {
  // Whether a server listens there plays no part: its name comes first.
  const firstLine = async (args: readonly string[], env: Readonly<Record<string, string>>) =>
    (await kit(args, { program, env })).stderr.split("\n", 1)[0];

  it("is named where a command may change it, and where REDIS_URL is empty", async () => {
    const resume = ["queue", "resume", "no-such-queue", "--prefix", "no-such-prefix"];
    expect(await firstLine(resume, {})).toBe("kit: no --url and no REDIS_URL: using redis://127.0.0.1:6379");
    const empty = "kit: REDIS_URL is empty: using redis://127.0.0.1:6379";
    for (const args of [resume, ["inspect", "lock", "a"]]) expect(await firstLine(args, { REDIS_URL: "" })).toBe(empty);
    expect(await firstLine(["inspect", "lock", "a"], {})).not.toMatch(/using redis/);
    expect(await firstLine([...resume, "--url", "redis://127.0.0.1:1"], {})).not.toMatch(/using redis/);
  });
});
