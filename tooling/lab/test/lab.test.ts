import { spawn } from "node:child_process";
import { once } from "node:events";
import { describe, expect, it } from "vitest";
import { clock, clockOrigin, end, hasEnded, now, outputOf, seeded, seededBelow } from "../src/index.js";

const node = (program: string, env: Readonly<Record<string, string>> = {}) =>
  spawn(process.execPath, ["--input-type=module", "-e", program], {
    env: { ...process.env, ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });

const built = JSON.stringify(new URL("../dist/index.js", import.meta.url).href);

describe("the clock", () => {
  it("is the same in another process", async () => {
    const program = `const { clock, now } = await import(${built}); console.log(JSON.stringify([clock(), now()]))`;
    const [clockBefore, before] = [clock(), now()];
    const child = node(program, { KIT_CLOCK_ORIGIN: String(clockOrigin) });
    const output = outputOf(child);
    await once(child, "close");
    const [theirClock = NaN, theirs = NaN] = JSON.parse(output.stdout) as number[];
    expect([theirClock >= clockBefore, theirClock <= clock()]).toEqual([true, true]);
    expect([theirs >= before, theirs <= now()]).toEqual([true, true]);
  });
});

describe("seeded numbers", () => {
  const ten = (next: () => number): number[] => Array.from({ length: 10 }, next);

  it("are the same for the same seed, and others for its neighbour", () => {
    expect(ten(seeded(7))).toEqual(ten(seeded(7)));
    expect(seeded(7)()).not.toBe(seeded(8)());
  });

  it("are whole and cover the range below a limit", () => {
    const below = seededBelow(3);
    const found = new Set(Array.from({ length: 200 }, () => below(4)));
    expect(found).toEqual(new Set([0, 1, 2, 3]));
  });
});

describe("a child process", () => {
  it("is ended by a signal, and once only", async () => {
    const child = node("setInterval(() => {}, 1000)");
    expect(hasEnded(child)).toBe(false);
    await end(child);
    expect(hasEnded(child)).toBe(true);
    expect(child.signalCode).toBe("SIGKILL");
    await end(child);
  });

  it("has its output kept, each stream apart", async () => {
    const child = node("console.log('äö'); console.error('no')");
    const output = outputOf(child);
    await once(child, "close");
    expect(output).toEqual({ stdout: "äö\n", stderr: "no\n" });
  });
});
