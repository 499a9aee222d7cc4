import { readdirSync, readFileSync } from "node:fs";
import { type Connection, connect } from "@kit/core";
import { createQueue, type Queue } from "@kit/queue";
import { eventually, FaultProxy, startRedis } from "@kit/testing";
import { Program } from "@tooling/vitest/helpers";
import { patient, said } from "./said.js";
import { beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { order, quote, readiness } from "./frameworks/jobs.mjs";
import { type Held, Partner } from "./partner.js";

const folder = new URL("frameworks/", import.meta.url);

it("the page shows each program as it is", () => {
  const page = readFileSync(new URL("../../../packages/queue/docs/frameworks.md", import.meta.url), "utf8");
  for (const file of readdirSync(folder).filter((name) => name !== "typescript.mjs"))
    expect(page).toContain(readFileSync(new URL(file, folder), "utf8").trim());
});

let server: Awaited<ReturnType<typeof startRedis>>;
let redis: Connection;
let queue: Queue;
let partner: Partner;
beforeEach(async () => {
  server = await startRedis();
  redis = await connect(server.url);
  queue = createQueue(redis, "shop", { deadlineMs: 1_000 });
  partner = await Partner.start();
  onTestFinished(async () => {
    await queue.close({ timeoutMs: 0 });
    await redis.close();
    await partner[Symbol.asyncDispose]();
    await server.stop();
  });
});

const start = (file: string): Program => {
  const env = { REDIS_URL: server.url, PARTNER_URL: partner.url, PORT: "0" };
  const execArgv = file.endsWith(".ts") ? ["--import", new URL("typescript.mjs", folder).href] : [];
  const program = new Program(new URL(file, folder), env, execArgv);
  onTestFinished(async () => void (await program.end("SIGKILL")));
  return program;
};

/** Waits until the partner holds as many requests, and takes them. */
const held = async (count: number): Promise<readonly Held[]> => {
  await eventually(() => expect(partner.held).toHaveLength(count), patient);
  return partner.held.splice(0);
};

describe.each(["express.mjs", "fastify.mjs", "nest.ts"])("%s", (file) => {
  it("adds jobs, waits for outcomes, and loses nothing by SIGTERM in the middle of jobs and a request", async () => {
    const program = start(file);
    const url = `http://127.0.0.1:${await said(program, "listens")}`;
    const post = async (path: string, data: object): Promise<{ status: number; body: Record<string, unknown> }> => {
      const init = { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(data) };
      const response = await fetch(`${url}/${path}`, init);
      return { status: response.status, body: (await response.json()) as Record<string, unknown> };
    };

    await eventually(async () => expect((await fetch(`${url}/health`)).status).toBe(200), patient);
    expect((await fetch(`${url}/alive`)).status).toBe(200);
    const failing = post("quotes", { item: "chair" });
    (await held(1))[0]!.answer("failure");
    expect(await failing).toMatchObject({ status: 502 });

    const quoted = post("quotes", { item: "lamp" });
    await eventually(() => expect(partner.held).toHaveLength(1), patient);
    const ids: unknown[] = [];
    for (let count = 0; count < 6; count++) {
      const { status, body } = await post("orders", { count });
      expect(status).toBe(202);
      ids.push(body["id"]);
    }
    const [call, order] = await held(2);
    program.signal("SIGTERM");
    await eventually(async () => {
      await expect(fetch(url)).rejects.toMatchObject({ cause: { code: "ECONNREFUSED" } });
    }, patient);
    expect(program.hasEnded).toBe(false);
    call!.answer({ price: 12 });
    expect(await quoted).toEqual({ status: 200, body: { price: 12 } });
    await said(program, "closes");
    // The job that began before, and perhaps one more that began when the quote had ended.
    partner.automatic = {};
    for (const { answer } of [order!, ...partner.held]) answer({});
    expect(await program.ended()).toBe(0);

    // Another process does the jobs that it had not begun.
    const kept = (): Promise<number> => redis.hlen("kit:queue:{shop}:jobs");
    const theDead = 1;
    expect(await kept()).toBeGreaterThanOrEqual(theDead + 4);
    const worker = start("worker.mjs");
    await said(worker, "works");
    await eventually(async () => expect(await kept()).toBe(theDead), patient);
    expect(await worker.end("SIGTERM")).toBe(0);
    expect(await queue.deadLetters()).toHaveLength(1);
    const orders = partner.received.filter((request) => request.startsWith("order"));
    expect(orders.toSorted()).toEqual(ids.map((id) => `order ${String(id)}`).toSorted());
  });
});

describe("a request that waits for a job", () => {
  it("is answered when its time is over, and the job stays", async () => {
    const { status, body } = await quote(queue, { item: "lamp" }, 50);
    expect(status).toBe(504);
    expect(await redis.hexists("kit:queue:{shop}:jobs", String((body as { job?: unknown }).job))).toBe(1);
  });

  it("is answered while Redis is away, as is the look at the health", async () => {
    expect(await readiness(redis)).toEqual({ status: 200, body: { ok: true } });
    server.nodes[0]!.pause();
    onTestFinished(() => server.nodes[0]!.resume());
    const [quoted, ready] = await Promise.all([quote(queue, { item: "lamp" }, 50), readiness(redis)]);
    expect(quoted).toEqual({ status: 503, body: {} });
    expect(ready).toEqual({ status: 503, body: { ok: false } });
    server.nodes[0]!.resume();
  });
});

describe("a request whose job may have been added", () => {
  it("is answered with 503 only if it has a key, so that its repeat adds nothing", async () => {
    /** The answer to a request when the queue gets its job, and the reply to that is lost. */
    const lost = async (request: (queue: Queue) => Promise<unknown>): Promise<unknown> => {
      await using proxy = await FaultProxy.start({ port: server.nodes[0]!.port });
      await using client = await connect(proxy.url);
      const behind = createQueue(client, "shop", { deadlineMs: 500 });
      await eventually(async () => expect(await order(behind, {}, "o-0")).toMatchObject({ status: 202 }));
      proxy.down.hole = true;
      const reply = await request(behind);
      await behind.close({ timeoutMs: 0 });
      return reply;
    };
    const unknown = { status: 500, body: { error: "KIT_UNKNOWN_OUTCOME" } };
    expect(await lost((behind) => order(behind, { count: 1 }))).toEqual(unknown);
    expect(await lost((behind) => quote(behind, { item: "lamp" }, 500))).toEqual(unknown);
    expect(await lost((behind) => order(behind, { count: 2 }, "o-2"))).toEqual({ status: 503, body: {} });
    expect(await order(queue, { count: 2 }, "o-2")).toMatchObject({ status: 202 });
    expect(await redis.hlen("kit:queue:{shop}:jobs")).toBe(4);
  });
});
