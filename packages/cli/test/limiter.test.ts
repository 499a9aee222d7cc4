import { createLimiter, type Limiter, type Limits } from "@kit/limiter";
import { startRedis, type RedisServer } from "@kit/testing";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { doctor, kit, programBeside } from "./harness.js";

describe("the command line of a limiter", () => {
  const program = programBeside("limiter");
  let server: RedisServer;

  beforeAll(async () => {
    server = await startRedis();
  });
  afterAll(() => server.stop());

  const make = (name: string, limits: Limits): Limiter => {
    const limiter = createLimiter(server.client(), name, { limits });
    onTestFinished(() => limiter.close());
    return limiter;
  };
  const run = (...args: string[]) => kit([...args, "--url", server.url], { program });
  const hourMs = 3_600_000;

  it("shows the limits that were set at run time, and what a key has left", async () => {
    const logins = make("logins", {
      hourly: { count: 5, perMs: hourMs },
      total: { count: 9, perMs: hourMs, shared: true },
    });
    await logins.consume("2001:db8::1", { tokens: 2 });
    expect(await run("inspect", "limiter", "logins", "--key", "2001:db8::1")).toEqual({
      code: 0,
      stdout: expect.stringMatching(
        /^limiter +logins\nlimits +each program's own\nkey +2001:db8::1\ntokens +3 tokens left\nreset +nothing is in use in \d+ min\n$/,
      ) as string,
      stderr: "",
    });
    await logins.consume("2001:db8::1", { tokens: 3 });
    const { stdout } = await run("inspect", "limiter", "logins", "--key", "2001:db8::1", "--json");
    expect(JSON.parse(stdout)).toMatchObject({
      limiter: "logins",
      limits: null,
      key: "2001:db8::1",
      state: { allowed: false, remaining: 0, refusedBy: "1" },
    });
    await logins.setLimits({ tight: { count: 1, perMs: hourMs, algorithm: "sliding-window" } });
    expect((await run("inspect", "limiter", "logins")).stdout).toMatch(
      /^limiter +logins\nlimits +tight: 1 per 60 min, sliding-window\n$/,
    );
    const shown = await run("inspect", "limiter", "logins", "--json");
    expect(JSON.parse(shown.stdout)).toMatchObject({
      limits: { tight: { count: 1, perMs: hourMs, algorithm: "sliding-window", shared: false } },
    });
  });

  it("knows nothing of a key that is not in use", async () => {
    const { code, stdout } = await run("inspect", "limiter", "nobodys", "--key", "x");
    expect(code).toBe(1);
    expect(stdout).toMatch(/tokens +all: nothing is in use/);
  });

  it("names a block", async () => {
    await make("blocked", { hourly: { count: 5, perMs: hourMs } }).block("x", 600_000);
    const { stdout } = await run("inspect", "limiter", "blocked", "--key", "x");
    expect(stdout).toMatch(/tokens +blocked, for 10 min/);
  });

  it("lists limiters, and not their keys", async () => {
    const api = make("api", { rate: { count: 5, perMs: hourMs } });
    await api.consume("a");
    await api.consume("b");
    const { stdout } = await run("list", "limiters");
    expect(stdout).toMatch(/^api +each program's own$/m);
    expect(stdout.match(/^api /gm)).toHaveLength(1);
  });

  it("resets a key", async () => {
    const limiter = make("resets", { hourly: { count: 1, perMs: hourMs } });
    await limiter.consume("x");
    expect((await limiter.check("x")).allowed).toBe(false);
    const { code, stdout } = await run("limiter", "reset", "resets", "x");
    expect({ code, stdout }).toEqual({ code: 0, stdout: expect.stringMatching(/reset +done/) as string });
    expect((await limiter.check("x")).allowed).toBe(true);
    expect((await run("limiter", "reset", "resets", "")).code).not.toBe(0);
  });

  it("finds limits that no program can read, and lists those that were set at run time", async () => {
    const own = await startRedis();
    onTestFinished(() => own.stop());
    const limitsOf = async () => {
      const { of } = await doctor(own.url, ["--skip", "throughput,connection-churn"], { program });
      return of("limiter-limits");
    };
    expect(await limitsOf()).toMatchObject({
      severity: "ok",
      findings: [{ text: expect.stringMatching(/none$/) as string }],
    });
    for (const name of ["api", "logins"]) {
      const limiter = createLimiter(own.client(), name, { limits: { rate: { count: 1, perMs: hourMs } } });
      await limiter.setLimits({ rate: { count: 2, perMs: hourMs } });
      await limiter.close();
    }
    expect(await limitsOf()).toMatchObject({
      severity: "ok",
      findings: [{ text: "limiters with limits of setLimits(): 2: api, logins" }],
    });
    const limits = "kit:limiter:{logins}:limits";
    await own.client().set(limits, "1 0 damaged");
    expect(await limitsOf()).toMatchObject({
      severity: "problem",
      findings: [
        { text: expect.stringMatching(/^limiter logins does not work: /) as string, fix: `redis-cli DEL '${limits}'` },
      ],
    });
  });

  it("reports a key that another program wrote", async () => {
    await server.client().rpush("kit:limiter:{spoilt}:key:x", "x");
    const { code, stderr } = await run("inspect", "limiter", "spoilt", "--key", "x");
    expect(code).toBe(2);
    expect(stderr).toMatch(/kit:limiter:\{spoilt\}:key:x/);
  });
});
