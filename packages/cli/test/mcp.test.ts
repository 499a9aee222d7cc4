import { createLimiter } from "@kit/limiter";
import { createLock } from "@kit/lock";
import { createQueue } from "@kit/queue";
import { startRedis, type RedisServer } from "@kit/testing";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { kit, programBeside } from "./harness.js";

interface Answer {
  readonly isError?: boolean;
  readonly content: readonly { readonly text: string }[];
}

describe("kit mcp", () => {
  const program = programBeside("limiter", "lock", "queue", "@modelcontextprotocol/sdk");
  let server: RedisServer;
  let client: Client;

  beforeAll(async () => {
    server = await startRedis();
    client = new Client({ name: "test", version: "1" });
    const args = [program, "mcp", "--url", server.url];
    await client.connect(new StdioClientTransport({ command: process.execPath, args, stderr: "inherit" }));
    const limiter = createLimiter(server.client(), "api", { limits: { rate: { count: 5, perMs: 3_600_000 } } });
    await limiter.consume("ann", { tokens: 2 });
    const lock = createLock(server.client(), { leaseMs: 600_000 });
    (await lock.acquire("item:42")).handOver();
    const queue = createQueue(server.client(), "mail");
    await queue.add("email", { to: "ann" });
    await Promise.all([limiter, lock, queue].map((one) => one.close()));
  });
  afterAll(async () => {
    await client.close();
    await server.stop();
  });

  const ask = async (name: string, values: Record<string, unknown> = {}): Promise<Answer> =>
    (await client.callTool({ name, arguments: values })) as unknown as Answer;
  const data = async (name: string, values?: Record<string, unknown>): Promise<Record<string, unknown>> => {
    const { isError, content } = await ask(name, values);
    expect(isError).toBeUndefined();
    return JSON.parse(content[0]!.text) as Record<string, unknown>;
  };

  it("offers a tool for each report, all of them read-only, and no command", async () => {
    const { tools } = await client.listTools();
    const names = tools.map(({ name }) => name);
    expect(names).toEqual(
      expect.arrayContaining(["inspect_limiter", "inspect_lock", "inspect_queue", "list", "doctor"]),
    );
    expect(names.filter((name) => !/^(inspect_[a-z_]+|list|doctor)$/.test(name))).toEqual([]);
    expect(tools.filter(({ annotations }) => annotations?.readOnlyHint !== true)).toEqual([]);
    expect(tools.find(({ name }) => name === "inspect_limiter")!.inputSchema).toEqual({
      type: "object",
      properties: {
        name: { type: "string", description: "name of the limiter" },
        key: { type: "string", description: expect.any(String) as string },
      },
      required: ["name"],
    });
  });

  it("answers with the data of the reports", async () => {
    expect(await data("inspect_limiter", { name: "api", key: "ann" })).toMatchObject({
      limiter: "api",
      state: { allowed: true, remaining: 3 },
      isUnknown: false,
    });
    expect(await data("inspect_queue", { name: "male" })).toMatchObject({ isUnknown: true });
    const overview = (await data("list"))["things"] as { thing: string; name: string }[];
    expect(overview.map(({ thing, name }) => `${thing} ${name}`).toSorted()).toEqual([
      "limiter api",
      "lock item:42",
      "queue mail",
    ]);
    expect(await data("list", { things: "queues" })).toMatchObject({ queues: [{ queue: "mail" }], isWhole: true });
    const { checks } = (await data("doctor")) as { checks: { id: string }[] };
    expect(checks.map(({ id }) => id)).toEqual(expect.arrayContaining(["reachability", "queue-paused"]));
  });

  it("reports errors to the assistant, and serves on", async () => {
    expect(await ask("limiter_reset", { name: "api", key: "ann" })).toMatchObject({
      isError: true,
      content: [{ text: 'There is no tool "limiter_reset"' }],
    });
    expect(await ask("inspect_lock", { name: "" })).toMatchObject({ isError: true });
    expect(await ask("list", { things: "cars" })).toMatchObject({ isError: true });
    expect(await data("inspect_lock", { name: "item:42" })).toMatchObject({ isUnknown: false });
  });

  it("changes nothing", async () => {
    const dump = async (): Promise<Record<string, unknown>> => {
      const keys = (await server.client().keys("*")).toSorted();
      return Object.fromEntries(await Promise.all(keys.map(async (key) => [key, await server.client().dump(key)])));
    };
    const { tools } = await client.listTools();
    const before = await dump();
    expect(Object.keys(before).length).toBeGreaterThan(3);
    for (const { name, inputSchema } of tools) {
      const names = Object.fromEntries((inputSchema.required ?? []).map((one) => [one, "api"]));
      await ask(name, names);
    }
    expect(await dump()).toEqual(before);
  });

  it("says what to install without the SDK", async () => {
    const { code, stderr } = await kit(["mcp", "--url", server.url], { program: programBeside("lock") });
    expect({ code, stderr }).toEqual({
      code: 64,
      stderr: "kit: kit mcp needs @modelcontextprotocol/sdk. Run: npm install @modelcontextprotocol/sdk\n",
    });
  });
});
