import { readdirSync, readFileSync } from "node:fs";
import { connect } from "@kit/core";
import { createQueue } from "@kit/queue";
import { inspectQueue } from "@kit/queue/manage";
import { eventually, startRedis } from "@kit/testing";
import { Program } from "@tooling/vitest/helpers";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import type { Board } from "../src/index.js";

const folder = new URL("recipes/", import.meta.url);

it("the page shows each program as it is", () => {
  const page = readFileSync(new URL("../docs/frameworks.md", import.meta.url), "utf8");
  for (const file of readdirSync(folder)) expect(page).toContain(readFileSync(new URL(file, folder), "utf8").trim());
});

const aQueue = async () => {
  const server = await startRedis();
  const redis = await connect(server.url);
  const queue = createQueue(redis, "mail");
  onTestFinished(async () => {
    await queue.close();
    await redis.close();
    await server.stop();
  });
  await queue.add("hello", {});
  return { server, isPaused: async () => (await inspectQueue(redis, { queue: "mail" })).pausedAt !== null };
};

const pause = "?thing=queue&name=mail&do=queue+pause";
const own = { "sec-fetch-site": "same-origin", "content-type": "application/x-www-form-urlencoded" };

describe.each([
  ["http.mjs", "/"],
  ["hono.mjs", "/board"],
  ["express.mjs", "/board"],
  ["fastify.mjs", "/board"],
])("%s", (file, path) => {
  it("shows the board to those who are logged in, and runs the actions of operators", async () => {
    const { server, isPaused } = await aQueue();
    const program = new Program(new URL(file, folder), { REDIS_URL: server.url, PORT: "0" });
    onTestFinished(async () => void (await program.end("SIGKILL")));
    const port = await eventually(
      () => {
        const [text] = program.said("listens");
        if (text === undefined) throw new Error(`It printed only: ${program.printed}`);
        return text;
      },
      { timeoutMs: 30_000 },
    );
    const url = `http://127.0.0.1:${port}${path}`;
    const get = async (query: string, user: string) => await fetch(url + query, { headers: { "x-user": user } });
    const post = async (user: string, headers: object = {}) =>
      await fetch(url + pause, { method: "POST", body: "o.name=", headers: { ...own, "x-user": user, ...headers } });

    expect((await fetch(url)).status).toBe(403);
    const page = await get("?thing=queue&name=mail", "bob");
    expect(page.status).toBe(200);
    const html = await page.text();
    expect(html).toContain("shop, production");
    expect(html).not.toContain("do=");
    const [, css = ""] = /href="(\?asset=board\.css[^"]*)"/.exec(html) ?? [];
    expect((await fetch(url + css.replaceAll("&amp;", "&"))).headers.get("content-type")).toContain("text/css");
    expect((await post("bob")).status).toBe(403);
    expect((await post("ann", { "sec-fetch-site": "cross-site" })).status).toBe(403);
    expect(await isPaused()).toBe(false);
    expect((await post("ann")).status).toBe(200);
    expect(await isPaused()).toBe(true);
    await eventually(() => expect(program.said("audit")).toEqual(["ann queue pause mail done"]));
  });
});

describe("next.mjs", () => {
  it("exports the handlers of a route", async () => {
    const { server, isPaused } = await aQueue();
    vi.stubEnv("REDIS_URL", server.url);
    vi.spyOn(console, "log").mockReturnValue(undefined);
    const { redis } = (await import(new URL("board.mjs", folder).href)) as { redis: { close(): Promise<void> } };
    onTestFinished(async () => {
      await redis.close();
      vi.unstubAllEnvs();
      vi.restoreAllMocks();
    });
    const { GET, POST } = (await import(new URL("next.mjs", folder).href)) as { GET: Board; POST: Board };
    const url = `http://localhost:3000/admin/board${pause}`;
    expect((await GET(new Request(url, { headers: { "x-user": "ann" } }))).status).toBe(200);
    expect((await POST(new Request(url, { method: "POST", headers: { ...own, "x-user": "ann" } }))).status).toBe(200);
    expect(await isPaused()).toBe(true);
  });
});
