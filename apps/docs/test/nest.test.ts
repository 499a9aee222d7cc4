import { readFileSync } from "node:fs";
import { type Connection, connect } from "@kit/core";
import { eventually, startRedis } from "@kit/testing";
import { Program } from "@tooling/vitest/helpers";
import { beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { Partner } from "./partner.js";
import { patient, said } from "./said.js";

const folder = new URL("nest/", import.meta.url);
const textOf = (file: string): string => readFileSync(new URL(file, folder), "utf8");

it("the page shows each program as it is, and the module has at most 60 lines", () => {
  const page = readFileSync(new URL("../recipes/nest.md", import.meta.url), "utf8");
  for (const file of ["kit.module.ts", "main.ts"]) expect(page).toContain(textOf(file).trim());
  expect(textOf("kit.module.ts").trim().split("\n").length).toBeLessThanOrEqual(60);
});

describe("a NestJS application with the providers of the page", () => {
  let server: Awaited<ReturnType<typeof startRedis>>;
  let redis: Connection;
  let partner: Partner;
  beforeEach(async () => {
    server = await startRedis();
    redis = await connect(server.url);
    partner = await Partner.start();
    onTestFinished(async () => {
      await redis.close();
      await partner[Symbol.asyncDispose]();
      await server.stop();
    });
  });

  it("runs jobs under a lock, and ends them and their locks at SIGTERM", async () => {
    const env = { REDIS_URL: server.url, PARTNER_URL: partner.url, PORT: "0" };
    const loader = ["--import", new URL("frameworks/typescript.mjs", import.meta.url).href];
    const program = new Program(new URL("main.ts", folder), env, loader);
    onTestFinished(async () => void (await program.end("SIGKILL")));
    const url = `http://127.0.0.1:${await said(program, "listens")}`;
    const order = async (item: string): Promise<string> => {
      const init = { method: "POST", headers: { "content-type": "application/json", connection: "close" } };
      const response = await fetch(`${url}/orders`, { ...init, body: JSON.stringify({ item }) });
      expect(response.status).toBe(202);
      return ((await response.json()) as { readonly id: string }).id;
    };

    const ids = [await order("lamp"), await order("lamp"), await order("chair")];
    const running = (): Promise<number> => redis.zcard("kit:queue:{shop}:leases");
    await eventually(
      async () => expect({ held: partner.held.length, running: await running() }).toEqual({ held: 2, running: 3 }),
      patient,
    );
    const board = await fetch(`${url}/board?thing=queue&name=shop`, { headers: { connection: "close" } });
    expect([board.status, /<b>3<\/b> Active/.test(await board.text())]).toEqual([200, true]);
    program.signal("SIGTERM");
    await eventually(async () => {
      // A connection that is kept alive would stay open.
      const asked = fetch(url, { headers: { connection: "close" } });
      await expect(asked).rejects.toMatchObject({ cause: { code: "ECONNREFUSED" } });
    }, patient);
    expect(program.hasEnded).toBe(false);
    partner.automatic = {};
    for (const { answer } of partner.held) answer({});
    expect(await program.ended()).toBe(0);

    expect(partner.received.toSorted()).toEqual(ids.map((id) => `order ${id}`).toSorted());
    expect(await redis.exists("kit:queue:{shop}:jobs", "kit:queue:{shop}:leases", "kit:queue:{shop}:dead")).toBe(0);
    const leases = await redis.keys("kit:lock:*:lease");
    expect(leases).toEqual([]);
    expect(program.printed).not.toMatch(/error/i);
  });
});
