import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createContactBook, createPrefixIndex } from "@kit/autocomplete";
import { createChat } from "@kit/chat";
import { connect, type Connection } from "@kit/core";
import { importGeoIp } from "@kit/geoip";
import { createLock } from "@kit/lock";
import { createQuorumLock } from "@kit/lock/quorum";
import { createReadWriteLock } from "@kit/lock/read-write";
import { createShipper } from "@kit/logship";
import { createQueue } from "@kit/queue";
import { createSemaphore } from "@kit/semaphore";
import { createStats } from "@kit/stats";
import { type RedisServer, startRedis } from "@kit/testing";
import { aclUser } from "@tooling/vitest/helpers";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { descriptorOf, knownPackages } from "../src/packages.js";
import { doctor, emptyFolder, kit, programBeside } from "./harness.js";

const program = programBeside(...knownPackages);

describe.each(["single", "cluster"] as const)("kit list on a %s", (mode) => {
  it("shows what is held now, a row for each, and nothing of other prefixes", async () => {
    await using server = await startRedis({ mode });
    const redis = await connect({ url: server.url, deadlineMs: 30_000 });
    onTestFinished(() => redis.close());
    const list = (...args: string[]) => kit(["list", ...args, "--url", server.url]);
    expect(await list("locks")).toEqual({ code: 0, stdout: "locks  none\n", stderr: "" });
    const lock = createLock(redis, { holder: "web-1" });
    const elsewhere = createLock(redis, { prefix: "other" });
    const tables = createSemaphore(redis, "tables", { permits: 3 });
    await Promise.all([lock.acquire("item:42"), lock.acquire("a {b}"), elsewhere.acquire("hidden"), tables.acquire()]);
    const locks = await list("locks");
    expect(locks.stdout).toMatch(
      /^locks {2}2\n\nname +holder +since +lease +waiters\n-+\na \{b\} +web-1[^]*\nitem:42 +web-1/,
    );
    const { stdout } = await list("locks", "--json");
    expect(JSON.parse(stdout)).toMatchObject({
      version: 1,
      isWhole: true,
      locks: [
        { lock: "a {b}", holder: "web-1" },
        { lock: "item:42", holder: "web-1" },
      ],
    });
    await redis.rpush("kit:lock:{odd}:lease", "x");
    const damaged = await list("locks");
    expect(damaged.stdout).toMatch(/^locks {2}3\n[^]*\nitem:42 +web-1[^]*\nodd +lock.inspect[^]* a list/);
    expect(damaged.code).toBe(0);
    const readers = createReadWriteLock(redis, { holder: "web-2" });
    await readers.read.acquire("prices");
    expect((await list("locks")).stdout).toMatch(/^locks {2}4\n[^]*\nprices +web-2, expires/);
    if (mode === "single") {
      const quorum = createQuorumLock([redis], { holder: "web-3", restartGuardMs: 0 });
      onTestFinished(() => quorum.close({ timeoutMs: 0 }));
      await quorum.acquire("report");
    }
    expect((await list("locks")).stdout).toMatch(
      mode === "single" ? /^locks {2}5\n[^]*\nreport +web-3, expires/ : /^locks {2}4\n/,
    );
    expect((await list("semaphores")).stdout).toMatch(/\ntables +3, 1 in use, 2 free/);
    expect((await list("locks", "--prefix", "other")).stdout).toMatch(/\nhidden /);
    await Promise.all([lock, elsewhere, tables, readers].map((one) => one.close({ timeoutMs: 0 })));
  });

  it("stops at a hundred, and reports it", async () => {
    await using server = await startRedis({ mode });
    const redis = await connect({ url: server.url, deadlineMs: 30_000 });
    onTestFinished(() => redis.close());
    const lock = createLock(redis, { leaseMs: 600_000, renew: false });
    await Promise.all(Array.from({ length: 101 }, (_, index) => lock.acquire(`item:${String(index)}`)));
    const { stdout } = await kit(["list", "locks", "--url", server.url]);
    expect(stdout).toMatch(/^locks {2}100, maybe more: the scan stopped early\n/);
    await lock.close({ timeoutMs: 0 });
  });
});

/** Something of every package, under names that are easy to read. */
const furnish = async (
  redis: Connection,
): Promise<readonly { close(options?: { timeoutMs: number }): Promise<void> }[]> => {
  const lock = createLock(redis, { holder: "web-1" });
  const tables = createSemaphore(redis, "tables", { permits: 3 });
  const mail = createQueue(redis, "mail");
  const chat = createChat(redis);
  const stats = createStats(redis);
  const places = createPrefixIndex(redis, "places", { order: "alphabetical", shards: 2 });
  const book = createContactBook(redis, "ann");
  const shipper = createShipper(redis, "web", { limitBytes: 1_000_000 });
  await Promise.all([
    lock.acquire("item:42"),
    tables.acquire(),
    mail.add("welcome", { to: "ann" }),
    chat.create("room", { members: ["ann", "bob"], retain: { count: 10 } }),
    places.put({ id: "oslo", text: "Oslo" }),
    book.record("bob", { text: "Bob" }),
    importGeoIp(redis, "city", [{ network: "10.0.0.0/24", place: { country: "NO" } }]),
    stats.counter("visits").add(3),
    stats.counter("orders", { labelNames: ["kind"] }).add({ kind: "new" }, 1),
  ]);
  const file = join(emptyFolder(), "access.log");
  writeFileSync(file, "one\ntwo\n");
  await shipper.add(file);
  await chat.send("room", { from: "ann", body: "hello" });
  return [lock, tables, mail, chat, stats, places, book, shipper];
};

/** An index in several shards has their number in its name. */
const shards = (kind: string): readonly string[] => (kind === "autocomplete" ? ["--shards", "2"] : []);

describe("everything that is there", () => {
  it.each(["single", "cluster"] as const)("is listed on a %s, a line for each thing", async (mode) => {
    await using server = await startRedis({ mode });
    const redis = await connect({ url: server.url, deadlineMs: 30_000 });
    onTestFinished(() => redis.close());
    const run = (...args: string[]) => kit([...args, "--url", server.url], { program });
    const nothing = await run("list");
    expect(nothing).toEqual({ code: 0, stdout: "found  nothing under the prefix kit\n", stderr: "" });
    const things = await furnish(redis);
    const { stdout, stderr } = await run("list");
    expect(stderr).toBe("");
    const [, , ...rows] = stdout.trimEnd().split("\n");
    expect(rows.map((row) => row.split(/ {2,}/))).toEqual([
      ["autocomplete", "places", "1 item in 2 shards, 1 word start"],
      ["contact-book", "ann", "1 contact, 0 blocked"],
      ["chat", "room", "1 message, 2 members"],
      ["geoip", "city", expect.stringMatching(/^version \S+, 1 range$/)],
      ["lock", "item:42", expect.stringMatching(/^held by web-1, expires in .* unless renewed, 0 waiting$/)],
      ["logship", "web", expect.stringMatching(/^open, .* used$/)],
      ["queue", "mail", "1 ready, 0 delayed, 0 active, 0 dead"],
      ["semaphore", "tables", "1 of 3 in use, 0 waiting"],
      ["stats", "orders", "1 series"],
      ["stats", "visits", "counter, total 3"],
    ]);
    expect(Math.max(...rows.map((row) => row.length))).toBeLessThanOrEqual(80);
    const { things: listed } = JSON.parse((await run("list", "--json")).stdout) as { things: unknown[] };
    expect(listed).toContainEqual({ thing: "queue", name: "mail", summary: "1 ready, 0 delayed, 0 active, 0 dead" });
    // The version of the form is never that of the data.
    for (const [kind = "", name = ""] of rows.map((row) => row.split(/ {2,}/))) {
      const report: unknown = JSON.parse((await run("inspect", kind, name, "--json", ...shards(kind))).stdout);
      expect(report).toMatchObject({ version: 1, url: expect.stringMatching(/^redis/) as string });
    }
    expect((await run("list", "chats")).stdout).toMatch(/\nroom +1, last sequence 1 +\S+ +2, slowest at position 0/);
    // Without a name it says what there is.
    expect(await run("queue", "list")).toEqual({
      code: 64,
      stdout: "",
      stderr: "kit: Missing argument: queue. Known queues: mail\n",
    });
    expect((await run("inspect", "stats")).stderr).toBe(
      "kit: Missing argument: stats. Known metrics: orders, visits\n",
    );
    expect((await run("receive", "web")).stderr).toBe("kit: Missing argument: consumer. Known names: none yet\n");
    await run("receive", "web", "stats", "--once");
    expect((await run("receive", "web")).stderr).toBe("kit: Missing argument: consumer. Known names: stats\n");
    const receive = await run("receive", "wbe", "stats");
    expect(receive).toMatchObject({
      code: 1,
      stdout: "",
      stderr: expect.stringContaining('no channel "wbe"') as string,
    });
    expect((await run("geoip", "lookup")).stderr).toBe("kit: Missing argument: database. Known databases: city\n");
    await Promise.all(things.map((one) => one.close({ timeoutMs: 0 })));
  });
});

describe("a user that may not do everything", () => {
  /** A server with something of every package, and the address for a user with these rules. */
  const furnished = async (rules: readonly string[]): Promise<{ server: RedisServer; url: string }> => {
    const server = await startRedis({ args: ["--user", "app", "on", ">secret", ...rules] });
    onTestFinished(() => server.stop());
    const redis = await connect({ url: server.url });
    onTestFinished(() => redis.close());
    const things = await furnish(redis);
    onTestFinished(async () => void (await Promise.all(things.map((one) => one.close({ timeoutMs: 0 })))));
    return { server, url: server.url.replace("//", "//app:secret@") };
  };
  const lockRules = async (): Promise<readonly string[]> =>
    aclUser({ name: "lock", permissions: (await descriptorOf("lock"))!.permissions }).grants("single");

  it("is told which right `kit list` needs, and sees what it may read of what is there", async () => {
    const { server, url } = await furnished(await lockRules());
    const list = (...args: string[]) => kit(["list", ...args, "--url", url], { program });
    const refused = await list();
    expect(refused.code).toBe(2);
    expect(refused.stderr).toMatch(
      /^kit: The server rejected the command: .*'scan' command.*\. For the required permissions: kit help permissions\n$/,
    );
    expect(JSON.parse((await list("--json")).stdout)).toMatchObject({ error: { code: "KIT_NO_PERMISSION" } });
    await server.client().call("ACL", "SETUSER", "app", "+scan");
    const { code, stdout } = await list();
    expect(code).toBe(0);
    expect(stdout).toMatch(/\nlock +item:42 +held by web-1[^]*\nqueue +mail +this user has no permission\n/);
    expect((await list("queues")).stdout).toMatch(/\nmail +this user has no permission\n/);
  });

  it("reads all packages and changes nothing as the operator of the doctor's page", async () => {
    const page = readFileSync(new URL("../docs/doctor.md", import.meta.url), "utf8");
    const [, rules = ""] = /^user operator on >password (.*?)^```$/ms.exec(page) ?? [];
    const { url } = await furnished(rules.trim().split(/\s+/));
    const run = (...args: string[]) => kit([...args, "--url", url], { program });
    const { stdout } = await run("list");
    const [, , ...rows] = stdout.trimEnd().split("\n");
    expect(rows).toHaveLength(10);
    expect(stdout).not.toMatch(/not permitted/);
    for (const [kind = "", name = ""] of rows.map((row) => row.split(/ {2,}/)))
      expect(await run("inspect", kind, name, ...shards(kind))).toMatchObject({ code: 0, stderr: "" });
    for (const words of [
      ["queue", "list", "mail", "--state", "waiting"],
      ["queue", "schedules", "mail"],
      ["queue", "repair", "mail"],
    ])
      expect(await run(...words)).toMatchObject({ code: 0, stderr: "" });
    const paused = await run("queue", "pause", "mail");
    expect(paused).toMatchObject({ code: 2, stderr: expect.stringContaining("kit help permissions") as string });
    const { of, report } = await doctor(url, ["--skip", "permissions,throughput,connection-churn"], { program });
    // Not `queue-handlers`, which warns once the server no longer lists the worker of the fixture.
    for (const id of ["keys-without-expiry", "queue-paused", "queue-schedules", "queue-long-jobs", "slow-log"])
      expect([id, of(id).severity]).toEqual([id, "ok"]);
    const forbidden = report.checks.filter(({ findings }) =>
      findings.some(({ text }) => text.startsWith("not permitted")),
    );
    expect(forbidden.map(({ id }) => id)).toEqual(["script-limits"]);
  });
});

describe("a name that does not exist", () => {
  let empty: RedisServer;
  beforeAll(async () => void (empty = await startRedis()));
  afterAll(() => empty.stop());

  it.each([
    ["inspect", "queue", "male"],
    ["queue", "list", "male"],
    ["queue", "retry", "male"],
    ["queue", "show", "male", "id"],
    ["inspect", "job", "male", "id"],
    ["inspect", "chat", "room"],
    ["inspect", "stats", "visit"],
    ["stats", "show", "visit"],
    ["inspect", "logship", "web"],
    ["inspect", "autocomplete", "places"],
    ["inspect", "contact-book", "ann"],
    ["inspect", "geoip", "city"],
    ["inspect", "semaphore", "tables"],
  ])("is unknown, and exits with 1: kit %s %s %s", async (...words) => {
    const run = (...more: string[]) => kit([...words, ...more, "--url", empty.url], { program });
    const { code, stdout, stderr } = await run();
    expect({ code, stderr }).toEqual({ code: 1, stderr: "" });
    expect(stdout).not.toMatch(/\b0\b/);
    expect(JSON.parse((await run("--json")).stdout)).toMatchObject({ isUnknown: true });
  });
});

describe("every command of every package", () => {
  /** They wait for what may come, or read a file. */
  const waiting = ["chat tail", "stats tail", "receive", "ship", "geoip import"];

  it("ends in order on a name that does not exist", async () => {
    await using server = await startRedis();
    const all = await Promise.all(knownPackages.map(descriptorOf));
    const commands = all.flatMap((one) => one?.commands ?? []).filter(({ path }) => !waiting.includes(path));
    expect(commands.length).toBeGreaterThan(15);
    for (const { path, args = [] } of commands) {
      const names = args.map(({ name }) => (name === "addresses" ? "10.0.0.1" : `no_${name}`));
      const { code, stderr } = await kit([...path.split(" "), ...names, "--url", server.url], { program });
      expect([path, stderr]).toEqual([path, expect.stringMatching(/^(kit: Database .* has no .*\n)?$/)]);
      const codes = path.startsWith("queue ") ? [1] : [0, 1, 2];
      expect([path, codes]).toEqual([path, expect.arrayContaining([code])]);
    }
  });
});

describe("kit list", () => {
  it("names what it can list", async () => {
    const { code, stdout } = await kit(["list", "--help"]);
    expect(code).toBe(0);
    expect(stdout).toMatch(/locks[^]*semaphores/);
  });
});
