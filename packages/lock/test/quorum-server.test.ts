import { attach } from "@kit/core/toolkit";
import { eventually } from "@kit/testing";
import { describe, expect, it } from "vitest";
import { QuorumServer } from "../src/quorum/server.js";
import { quorumFixture } from "./quorum-harness.js";

const fixture = quorumFixture(1);
const resolved = { leaseMs: 60_000, renew: true, maxHoldMs: undefined, holder: "me", waitMs: 0, signal: undefined };
const request = { name: "chest", token: "t", resolved };
const always = (): boolean => true;

const behindProxy = async () => {
  const { clients, proxies } = await fixture.proxied();
  const context = attach(clients[0]!, { prefix: fixture.servers[0]!.prefix });
  const closing = new AbortController();
  fixture.servers[0]!.defer(() => {
    closing.abort(new Error("over"));
    context.detach();
  });
  const server = new QuorumServer(context, 0, {
    guardMs: 0,
    keyOf: fixture.keyOf,
    signal: closing.signal,
    byRunId: new Map(),
    unguarded: () => undefined,
    onError: () => undefined,
  });
  // The server's clock is known from now on.
  await server.renew(request, { termMs: 0, heldUntil: 0 }, 60_000, always);
  return { server, proxy: proxies[0]!, client: clients[0]! };
};

describe("a server's vote on a new lease", () => {
  it("does not count when its connection was lost before the reply", async () => {
    const { server, proxy } = await behindProxy();
    proxy.down.cutNext = 1;
    const vote = await server.acquire({ ...request, token: "u" }, 60_000, 60_000, always);
    expect(vote).toMatchObject({ vote: "no-answer", error: { code: "KIT_UNKNOWN_OUTCOME" } });
    expect(server.isDouble).toBe(false);
  });
});

describe("a server's vote on a renewal", () => {
  it("writes a lease again while it is held, and counts", async () => {
    const { server } = await behindProxy();
    const heldUntil = performance.now() + 60_000;
    const vote = await server.renew(request, { termMs: 60_000, heldUntil }, 60_000, always);
    expect(vote.vote).toBe("granted");
    await fixture.untilHeld("chest", ["me"]);
  });

  it("does not count when the answer comes after the end of the lease: another may have held it", async () => {
    const { server, proxy } = await behindProxy();
    const heldUntil = performance.now() + 1_000;
    proxy.down.latencyMs = 2_000;
    const vote = await server.renew(request, { termMs: 60_000, heldUntil }, 60_000, always);
    expect(performance.now()).toBeGreaterThan(heldUntil);
    expect(vote.vote).not.toBe("granted");
  });

  it("writes nothing when the request comes after the end of the lease", async () => {
    const { server, proxy } = await behindProxy();
    proxy.up.latencyMs = 1_000;
    const heldUntil = performance.now() + 300;
    const vote = await server.renew(request, { termMs: 60_000, heldUntil }, 60_000, always);
    expect(vote.vote).toBe("free");
    expect(await fixture.holders("chest")).toEqual([null]);
  });

  it("is not asked for once the lease has ended", async () => {
    const { server, proxy, client } = await behindProxy();
    proxy.refuse = true;
    proxy.resetAll();
    await eventually(() => expect(client.status).not.toBe("ready"));
    let isHeld = true;
    const heldUntil = performance.now() + 60_000;
    const voting = server.renew(request, { termMs: 60_000, heldUntil }, 60_000, () => isHeld);
    isHeld = false;
    proxy.refuse = false;
    expect((await voting).vote).toBe("no-answer");
    expect(await fixture.holders("chest")).toEqual([null]);
  });
});
