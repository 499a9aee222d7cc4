import { once } from "node:events";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import { eventually } from "@kit/testing";
import { describe, expect, it } from "vitest";
import { ask } from "../src/common/http-client.js";
import { scratch, spawnShop, startShop, whenOpen } from "./shop.js";

/** Children of a process, and theirs. Linux tells; elsewhere the list is empty and only the temp folder is looked at. */
const family = (pid: number): number[] => {
  const file = `/proc/${pid}/task/${pid}/children`;
  if (!existsSync(file)) return [];
  const children = readFileSync(file, "utf8").trim().split(" ").filter(Boolean).map(Number);
  return children.flatMap((child) => [child, ...family(child)]);
};

const programOf = (pid: number): string => readFileSync(`/proc/${pid}/cmdline`, "utf8");

const isAlive = (pid: number): boolean => {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
};

const folders = (): string[] => readdirSync(scratch());

describe("--smoke", () => {
  it("sends visitors, races, counts again, prints one JSON summary, and exits 0", async () => {
    const { process: child, said } = spawnShop("--smoke", "--log-days", "1");
    const [code] = (await once(child, "close")) as [number | null];
    expect(said.stderr).toBe("");
    const lines = said.stdout.trim().split("\n");
    expect(lines).toHaveLength(1);
    const summary = JSON.parse(lines[0] ?? "") as { races: Record<string, { sold: number; recounted: number }> };
    expect(summary).toMatchObject({
      ok: true,
      failures: [],
      packages: Object.fromEntries(
        [
          ...["core", "lock", "queue", "semaphore", "limiter", "chat"],
          ...["autocomplete", "geoip", "logship", "stats", "testing"],
        ].map((name) => [name, { ok: true }]),
      ),
      races: {
        none: { answered: 50 },
        setnx: { answered: 50 },
        optimistic: { answered: 50, sold: 1, recounted: 1 },
        lock: { answered: 50, sold: 1, recounted: 1, refused: { "not-for-sale": 49 } },
        poor: { answered: 50, sold: 1, recounted: 1, refused: { short: 49 } },
      },
      invariants: { itemsLost: 0, itemsTwice: 0, inDebt: 0, disagreements: [] },
    });
    expect(summary.races["none"]?.sold).toBeGreaterThan(1);
    expect(summary.races["none"]?.recounted).toBeGreaterThan(1);
    expect(code).toBe(0);
    expect(folders()).toEqual([]);
  });
});

/** A shop that opens while port 3000 is taken: by us, or by a program that has it already. */
const openBesidePort3000 = async (): Promise<Awaited<ReturnType<typeof whenOpen>>> => {
  for (;;) {
    const other = createServer().listen(3_000, "127.0.0.1");
    const isOurs = await new Promise<boolean>((resolve) => {
      other.once("listening", () => resolve(true)).once("error", () => resolve(false));
    });
    const shop = await whenOpen(spawnShop("--log-days", "0"));
    other.close();
    if (isOurs || new URL(shop.origin).port !== "3000") return shop;
    // The other program has freed the port meanwhile.
    await shop.stop();
  }
};

describe("The program", () => {
  it("ends on Ctrl-C with 0 within three seconds and leaves nothing behind", async () => {
    const shop = await startShop();
    expect(folders()).toHaveLength(1);
    expect(await ask(shop.origin, "/health")).toMatchObject({ status: 200 });
    // A visitor that keeps looking does not keep the shop open.
    const stream = await fetch(`${shop.origin}/live`);
    const reader = stream.body?.getReader();
    await reader?.read();
    const children = family(shop.process.pid ?? 0);
    expect(await shop.stop("SIGINT")).toEqual({ code: 0 });
    await eventually(() => expect(children.filter(isAlive)).toEqual([]));
    await expect(fetch(`${shop.origin}/health`)).rejects.toThrow("fetch failed");
    expect(folders()).toEqual([]);
    expect(shop.said.stdout).toBe(`Bazaar is open: ${shop.origin}\n`);
    // Progress, where to look first and how to stop it; nothing else.
    expect(shop.said.stderr).toMatch(/Start with .*\/about .*\n {2}Ctrl-C stops the shop and all its processes\.\n/);
    expect(shop.said.stderr.split("\n").filter((line) => line !== "" && !/^ {2}/.test(line))).toEqual([]);
  });

  it.each([
    [["--port", "x"], /--port must be a number/],
    [["--log-days", "31"], /--log-days must be a number from 0 to 30/],
    [["--nonsense"], /Unknown option/],
    [["--mode", "quorum"], /--mode must be single, cluster or sentinel/],
    [["--prefix", "a b"], /--prefix must be/],
    [["--smoke", "--redis", "redis://127.0.0.1:1"], /omit --redis/],
  ])("explains %j and exits 2", async (args, words) => {
    const { process: child, said } = spawnShop(...args);
    const [code] = (await once(child, "close")) as [number | null];
    expect(code).toBe(2);
    expect(said.stderr).toMatch(words);
    expect(said.stdout).toBe("");
  });

  it("reports it when a port is taken, and ends by itself with 1 and one line when its Redis is gone", async () => {
    const shop = await openBesidePort3000();
    expect(shop.said.stderr).toMatch(/^ {2}Port 3000 is in use\. To choose a port, pass --port$/m);
    const { process: child, said } = spawnShop("--port", new URL(shop.origin).port);
    const [code] = (await once(child, "close")) as [number | null];
    expect(code).toBe(1);
    expect(said.stderr).toMatch(/^Port \d+ is in use\. Pass another with --port$/m);
    const ended = once(shop.process, "close");
    // Only Linux tells which process is its Redis.
    const [redis] = family(shop.process.pid ?? 0).filter((pid) => /redis|valkey/.test(programOf(pid)));
    if (redis === undefined) {
      await shop.stop();
      return;
    }
    process.kill(redis, "SIGKILL");
    expect((await ended)[0]).toBe(1);
    expect(shop.said.stderr).toMatch(/^Redis stopped: .*$/m);
  });
});
