import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { unpackRedis } from "../debian.mjs";
import { chosenServer, firstServer, inCache, lookRoutes, noServer, onPath, type Route } from "../redis.mjs";
import { findProgram, pathFolders } from "../repo.mjs";
import { tempFolder, writeFiles, writeProgram } from "./temp.js";

const redisVersion = "Redis server v=7.4.1 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64 build=0";
const valkeyVersion = "Valkey server v=8.1.1 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64 build=0";
const placeWith = (path: string) => ({ env: { ...process.env, PATH: path }, cacheDir: tempFolder() });

describe("the search for a server", () => {
  it("takes redis-server before valkey-server, in any order of the folders on PATH", async () => {
    const [first, second] = [tempFolder(), tempFolder()];
    writeProgram(first, "valkey-server", valkeyVersion);
    const redis = writeProgram(second, "redis-server", redisVersion);
    const server = await firstServer(placeWith(`${first}:${second}:/usr/bin:/bin`), [onPath], []);
    expect(server).toEqual({ bin: redis, product: "redis", version: "7.4.1" });
  });

  it("takes valkey-server when there is no redis-server", async () => {
    const folder = tempFolder();
    const valkey = writeProgram(folder, "valkey-server", valkeyVersion);
    const onlyThere: Route = {
      name: "there",
      get: async () => findProgram(["valkey-server"], [folder]) ?? { why: "" },
    };
    expect(await firstServer(placeWith(folder), [onlyThere], [])).toEqual({
      bin: valkey,
      product: "valkey",
      version: "8.1.1",
    });
  });

  it.each(["5.0.14", "6.0.16"])(
    "passes over a server %s, older than 6.2, and takes the cached one",
    async (version) => {
      const folder = tempFolder();
      writeProgram(folder, "redis-server", `Redis server v=${version} sha=00000000:0`);
      const place = placeWith(`${folder}:/bin`);
      const cached = writeProgram(place.cacheDir, "redis/bin/redis-server", redisVersion);
      writeProgram(place.cacheDir, "redis/bin/redis-check-aof", redisVersion);
      const tried: string[] = [];
      expect((await firstServer(place, lookRoutes, tried))?.bin).toBe(cached);
      expect(tried.join()).toContain("older than 6.2");
    },
  );

  it("throws away a cached server that does not run", async () => {
    const place = placeWith("/bin");
    mkdirSync(join(place.cacheDir, "redis/bin"), { recursive: true });
    writeProgram(place.cacheDir, "redis/bin/redis-server", "no version at all");
    writeProgram(place.cacheDir, "redis/bin/redis-check-aof", "no version at all");
    const tried: string[] = [];
    expect(await firstServer(place, [inCache], tried)).toBeUndefined();
    expect(tried.join()).toContain("does not run");
    expect(existsSync(join(place.cacheDir, "redis"))).toBe(false);
  });

  it("lists every route that failed, and the remedy", async () => {
    const tried = ["REDIS_SERVER_BIN: not set"];
    const routes: Route[] = [
      { name: "the first place", get: async () => ({ why: "is empty" }) },
      { name: "the second place", get: async () => ({ why: "is closed" }) },
    ];
    expect(await firstServer(placeWith("/bin"), routes, tried)).toBeUndefined();
    expect(noServer(tried).message.split("\n")).toEqual([
      "No Redis server could be found or fetched. Tried:",
      "  - REDIS_SERVER_BIN: not set",
      "  - the first place: is empty",
      "  - the second place: is closed",
      expect.stringContaining("Install Redis 6.2 or newer"),
    ]);
  });
});

describe("REDIS_SERVER_BIN", () => {
  it("wins over everything else", async () => {
    const bin = writeProgram(tempFolder(), "my-redis", redisVersion);
    expect(await chosenServer({ ...process.env, REDIS_SERVER_BIN: bin })).toMatchObject({ bin });
  });

  it("counts as absent when empty", async () => {
    expect(await chosenServer({ ...process.env, REDIS_SERVER_BIN: "" })).toBeUndefined();
  });

  it.each([
    ["a file that is not there", "/nowhere/redis-server", "not an executable file"],
    ["a program that is no server", "/bin/true", "does not run"],
  ])("is refused when it names %s", async (_, bin, why) => {
    await expect(chosenServer({ ...process.env, REDIS_SERVER_BIN: bin })).rejects.toThrow(why);
  });
});

const hasApt = findProgram(["apt-get"], pathFolders(process.env)) !== undefined;

describe("the Debian route", () => {
  it("says which tool is missing where there is no apt", async () => {
    expect(await unpackRedis({ PATH: tempFolder() }, join(tempFolder(), "redis"))).toBe("there is no apt-get here");
  });

  it.runIf(hasApt)(
    "unpacks a server with the libraries that the system lacks, and leaves nothing else",
    { timeout: 120_000 },
    async () => {
      // Hides the libraries that this system may have already.
      const fewer = tempFolder();
      const query = `exec /usr/bin/dpkg-query "$@" | grep -vE " (libjemalloc|liblua|liblzf|lua)"`;
      writeFiles(fewer, { "dpkg-query": `#!/bin/sh\n${query}\n` });
      chmodSync(join(fewer, "dpkg-query"), 0o755);
      const cache = tempFolder();
      const env = { ...process.env, PATH: `${fewer}:${process.env["PATH"]}` };
      expect(await unpackRedis(env, join(cache, "redis"))).toBeUndefined();
      expect(readdirSync(cache)).toEqual(["redis"]);
      expect(readdirSync(join(cache, "redis")).sort()).toEqual(["bin", "root"]);

      const socket = join(cache, "redis.sock");
      const args = ["--port", "0", "--unixsocket", socket, "--save", "", "--dir", cache];
      const server = spawn(join(cache, "redis", "bin", "redis-server"), args, { stdio: ["ignore", "pipe", "ignore"] });
      const ended = once(server, "exit");
      try {
        for await (const text of server.stdout) if (String(text).includes("ready to accept")) break;
        const script = "return cjson.encode({ 1, bit.bor(2, 4) })";
        const reply = execFileSync(join(cache, "redis", "bin", "redis-cli"), ["-s", socket, "EVAL", script, "0"]);
        expect(reply.toString().trim()).toBe("[1,6]");
        expect(readFileSync(`/proc/${server.pid}/maps`, "utf8")).toMatch(/\/redis\/root\/usr\/lib\/\S*\/libjemalloc/);
      } finally {
        server.kill("SIGKILL");
        await ended;
      }
    },
  );
});
