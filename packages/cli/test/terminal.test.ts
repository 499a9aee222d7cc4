import { type ChildProcess, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { createServer as createHttpServer } from "node:http";
import { type AddressInfo, createServer, type Server } from "node:net";
import { join } from "node:path";
import { secondsText } from "@kit/core/toolkit";
import { startRedis, type RedisServer } from "@kit/testing";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { plainText, sectionsOf } from "../src/explain.js";
import { checkLines, summaryLine } from "../src/print.js";
import {
  doctor,
  emptyFolder,
  ended,
  kit,
  program,
  programBeside,
  soundPassword,
  spawnKit,
  started,
} from "./harness.js";

const { version } = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8")) as {
  version: string;
};

const page = readFileSync(new URL("../docs/doctor.md", import.meta.url), "utf8");

it.each([
  [8_100, "8.1 s"],
  [42_000, "42 s"],
  [600_000, "10 min"],
  [86_400_000, "24 h"],
  [604_800_000, "7 days"],
])("a span of %d ms reads %j", (ms, text) => {
  expect(secondsText(ms)).toBe(text);
});

describe("the look of a report", () => {
  it("is this, at 80 columns", () => {
    const checks = [
      {
        id: "reachability",
        severity: "ok",
        findings: [{ severity: "ok", text: "connected after 3 ms" }],
        docs: "kit help reachability",
      },
      {
        id: "eviction-policy",
        severity: "problem",
        findings: [
          {
            severity: "problem",
            text: "allkeys-lru: a full server drops locks and other data of kit",
            fix: "CONFIG SET maxmemory-policy noeviction, and in redis.conf.",
          },
        ],
        docs: "kit help eviction-policy",
      },
      {
        id: "keys-without-expiry",
        severity: "warning",
        findings: [
          { severity: "warning", text: "keys that never expire: kit:\u001b[31mred, kit:b", fix: "Find out who." },
          { severity: "warning", text: "a second thing", fix: "Repair it." },
        ],
        docs: "kit help keys-without-expiry",
      },
      {
        id: "slow-log",
        severity: "skipped",
        findings: [{ severity: "skipped", text: "not permitted: SLOWLOG GET" }],
        docs: "kit help slow-log",
      },
    ] as const;
    const report = { url: "redis://h:1", checks, exitCode: 2 };
    expect(checks.map(checkLines).join("") + summaryLine(report)).toMatchInlineSnapshot(`
      "ok       reachability         connected after 3 ms
      problem  eviction-policy      allkeys-lru: a full server drops locks and other
                                    data of kit
                                    Fix: CONFIG SET maxmemory-policy noeviction, and
                                    in redis.conf.
                                    More: kit help eviction-policy
      warning  keys-without-expiry  keys that never expire: kit:·[31mred, kit:b
                                    Fix: Find out who.
                                    a second thing
                                    Fix: Repair it.
                                    More: kit help keys-without-expiry
      skipped  slow-log             not permitted: SLOWLOG GET

      4 checks: 1 ok, 1 warning, 1 problem, 1 skipped
      "
    `);
  });
});

describe("a fix for several findings", () => {
  it("is said once, below the last of them", () => {
    const findings = ["one", "two", "three"].map((text) => ({ severity: "warning" as const, text, fix: "Grant it." }));
    const text = checkLines({ id: "permissions", severity: "warning", findings, docs: "x" });
    expect(text.replace(/ +/g, " ")).toBe("warning permissions one\n two\n three\n Fix: Grant it.\n More: x\n");
  });
});

describe("the explanation of a check", () => {
  it("is this, at 80 columns", () => {
    const section = [
      "**Problem** when `maxmemory` is set, as [there](#memory) and in",
      "[a page](../x.md#y). It goes on for longer than one line of the page is.",
      "",
      "```sh",
      "redis-cli CONFIG SET maxmemory-policy noeviction",
      "```",
      "",
      "| Reason | Usual cause |",
      "| ------ | ----------- |",
      "| `ECONNREFUSED` | the server is down, or listens on another address (`bind`) or port |",
      "| something answers, but not as Redis would | another port |",
    ].join("\n");
    expect(plainText("memory", section)).toMatchInlineSnapshot(`
      "memory

      Problem when maxmemory is set, as kit help memory and in a page. It goes on for
      longer than one line of the page is.

          redis-cli CONFIG SET maxmemory-policy noeviction

      Reason                                     Usual cause
      ------------------------------------------------------
      ECONNREFUSED                               the server is down, or listens on
                                                 another address (bind) or port
      something answers, but not as Redis would  another port
      "
    `);
  });

  it("has no markup left, and no line that is too long", () => {
    const texts = [...sectionsOf(page)].map(([id, section]) => plainText(id, section));
    expect(texts.length).toBeGreaterThan(10);
    for (const text of texts) {
      expect(text).not.toMatch(/`|\*\*|^\||\]\(/m);
      expect(Math.max(...text.split("\n").map((line) => line.length))).toBeLessThanOrEqual(80);
    }
  });
});

describe("a path that no line takes", () => {
  it("continues in the next line behind a slash", () => {
    const path = `/srv/${"some-folder/".repeat(6)}ioredis`;
    const findings = [{ severity: "ok" as const, text: path }];
    const lines = checkLines({ id: "tls", severity: "ok", findings, docs: "" }).trimEnd().split("\n");
    const pieces = lines.map((line) => line.slice("ok       keys-without-expiry  ".length));
    expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(80);
    expect(pieces.slice(0, -1).filter((piece) => !piece.endsWith("/"))).toEqual([]);
    expect(pieces.join("")).toBe(path);
  });
});

describe("the program", () => {
  let server: RedisServer;

  beforeAll(async () => {
    server = await startRedis({ password: soundPassword });
  });
  afterAll(() => server.stop());

  it("prints data on stdout without colour off a terminal, at most 80 wide, and nothing on stderr", async () => {
    const { code, stdout, stderr } = await kit(["doctor", "--url", server.url], { env: { FORCE_COLOR: "1" } });
    expect(code).toBe(0);
    expect(stderr).toBe("");
    expect(stdout).not.toContain("\u001b");
    expect(stdout).toMatch(/^ok {7}reachability {9}connected to 127\.0\.0\.1:\d+ after \d+ ms\n/);
    expect(stdout).toMatch(/\n\n20 checks: \d+ ok, \d+ warnings?, 0 problems, 3 skipped\n$/);
    expect(Math.max(...stdout.split("\n").map((line) => line.length))).toBeLessThanOrEqual(80);
  });

  it("takes the address from the environment", async () => {
    const { code, stdout } = await kit(["inspect", "lock", "a"], { env: { REDIS_URL: server.url } });
    expect(stdout).toMatch(/holder +none/);
    expect(code).toBe(0);
  });

  it("exits 1 with --strict when there are warnings", async () => {
    const { code } = await kit(["doctor", "--url", server.url, "--strict", "--skip", "throughput"]);
    expect(code).toBe(1);
  });

  it("excludes the checks of --skip, and shows them as skipped", async () => {
    const { code, stdout } = await kit(["doctor", "--url", server.url, "--skip", "throughput,slow-log"]);
    expect(stdout.match(/^skipped {2}\S+ +excluded with --skip$/gm)?.map((line) => line.split(/ +/)[1])).toEqual([
      "slow-log",
      "throughput",
    ]);
    expect(code).toBe(0);
  });

  it("ends quietly when nobody reads on", async () => {
    const child = spawn(
      "sh",
      ["-c", '{ "$0" "$1" doctor --url "$2"; echo "code $?" >&2; } | head -1', process.execPath, program, server.url],
      { stdio: ["ignore", "pipe", "pipe"] },
    );
    const { code, stdout, stderr } = await ended(child);
    expect(stdout.split("\n")).toHaveLength(2);
    expect(stderr).toBe("code 0\n");
    expect(code).toBe(0);
  });

  it("ends with 130 on Ctrl-C, without a trace", async () => {
    const child = spawnKit(["doctor", "--url", server.url]);
    const whole = ended(child);
    child.stdout?.once("data", () => child.kill("SIGINT"));
    const { code, stderr } = await whole;
    expect(code).toBe(130);
    expect(stderr).toBe("");
  });

  it("ends with 0 on SIGTERM where the next run continues: nothing is lost, nothing comes twice", async () => {
    const folder = emptyFolder();
    const lines = Array.from({ length: 40_000 }, (_, index) => `line ${String(index)} ${randomUUID()}`);
    const file = join(folder, "a.log");
    writeFileSync(file, `${lines.join("\n")}\n`);
    const options = { program: programBeside("logship") };
    const own = ["--url", server.url, "--json"];
    const terminated = async (child: ChildProcess, wanted: (stdout: string) => boolean): Promise<string> => {
      let stdout = "";
      child.stdout?.on("data", (chunk: Buffer) => {
        const isSignalled = wanted(stdout);
        stdout += chunk.toString();
        // Once: a second signal ends it at once.
        if (!isSignalled && wanted(stdout)) child.kill("SIGTERM");
      });
      const { code, stderr } = await ended(child);
      expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
      return stdout;
    };
    const shipping = ["ship", "logs", file, "--limit", "400000", "--consumers", "c", ...own];
    // Nobody receives: it waits at the limit.
    await terminated(spawnKit(shipping, options), (stdout) => stdout.includes("progress"));
    const again = kit([...shipping, "--close"], options);
    const reading = ["receive", "logs", "c", ...own];
    const first = await terminated(spawnKit(reading, options), (stdout) => stdout.includes("line 999 "));
    const { stdout: rest } = await kit(reading, options);
    expect((first + rest).split("\n").length).toBe(lines.length + 1);
    expect(first + rest).toBe(`${lines.join("\n")}\n`);
    expect((await again).code).toBe(0);
  });

  it("prints its version and its help", async () => {
    expect(await kit(["--version"])).toEqual({ code: 0, stdout: `${version}\n`, stderr: "" });
    const help = await kit(["help"]);
    expect(help.stderr).toBe("");
    expect(help.code).toBe(0);
    expect(help.stdout).toMatch(/^Usage: kit .*doctor.*inspect/s);
    expect((await kit(["help", "doctor"])).stdout).toMatch(/--strict.*Exit codes: 0 fine, 1 warning/s);
    expect((await kit(["help", "inspect", "lock"])).stdout).toMatch(/^Usage: kit inspect lock .*--keys/s);
    const inspectors = (await kit(["help", "inspect"], { program: programBeside("autocomplete", "stats") })).stdout;
    expect(inspectors).toMatch(
      / a prefix index: [^]*\(@kit\/autocomplete\)[^]* a counter or distribution: [^]*\(@kit\/stats\)/,
    );
  });

  it("explains a check, as the documentation does", async () => {
    const section = sectionsOf(page).get("eviction-policy");
    expect(section).toContain("noeviction");
    expect(await kit(["help", "eviction-policy"])).toEqual({
      code: 0,
      stdout: plainText("eviction-policy", section!),
      stderr: "",
    });
  });

  it("lists what there is help on when it is asked for something else", async () => {
    const ids = [...sectionsOf(page).keys()].join(", ");
    for (const topic of [["no-such"], ["inspect", "no-such"], ["round-trip", "lock"]])
      expect(await kit(["help", ...topic])).toEqual({
        code: 64,
        stdout: "",
        stderr: `kit: No help for "${topic.join(" ")}". Commands: doctor, inspect, list, board, mcp, help, lock. Checks: ${ids}\n`,
      });
  });

  it("says what is empty", async () => {
    expect((await kit(["doctor", "--url", ""])).stderr).toMatch(/^kit: --url is empty\. Omit it/);
    const { code, stderr } = await kit(["inspect", "lock", ""], { env: { REDIS_URL: server.url } });
    expect(code).toBe(64);
    expect(stderr).toBe("kit: A name must be text of 1 to 512 bytes, got 0 bytes\n");
  });

  it.each([
    ["no command", []],
    ["an unknown command", ["docter"]],
    ["an unknown option", ["doctor", "--no-such"]],
    ["an unknown check to leave out", ["doctor", "--skip", "tls,no-such"]],
    ["an unknown thing to inspect", ["inspect", "lock"]],
    ["a prefix that cannot be one", ["doctor", "--prefix", "a{b"]],
    ["an empty address", ["doctor", "--url", ""]],
    ["an address that makes no sense", ["doctor", "--url", "http://127.0.0.1"]],
    ["a name that cannot be one", ["inspect", "lock", "x".repeat(600)]],
  ])("exits 64 on %s, and reports it on stderr", async (_, args) => {
    const { code, stdout, stderr } = await kit(args, { env: { REDIS_URL: server.url } });
    expect(code).toBe(64);
    expect(stdout).toBe("");
    expect(stderr).not.toBe("");
    expect(stderr).not.toMatch(/\n {4}at /);
  });
});

describe("an address where something else than Redis listens", () => {
  const listening = async (server: Server): Promise<string> => {
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    onTestFinished(() => void server.close());
    return `127.0.0.1:${String((server.address() as AddressInfo).port)}`;
  };

  it.each([
    ["an HTTP server", () => createHttpServer((_, response) => response.end())],
    ["one that closes at once", () => createServer((socket) => void socket.on("error", () => undefined).end())],
  ])("is reported as that of %s", async (_, make) => {
    const address = await listening(make());
    const report = await doctor(`redis://${address}`);
    const said = (text: string): void => {
      expect(text.replace(/after .* s \(.*?\)/, "after … s (…)")).toBe(
        `Cannot reach Redis at ${address} after … s (…). Check the port, TLS, maxclients and protected mode.`,
      );
      expect(Number(/after (\S+) s/.exec(text)?.[1])).toBeGreaterThanOrEqual(1.9);
      expect(text).not.toMatch(/report this/);
    };
    said(report.said("reachability"));
    expect(report.of("reachability").findings[0]?.fix).toMatch(/^Correct the port, or the scheme/);
    expect(report.code).toBe(3);
    const inspected = await kit(["inspect", "lock", "a", "--url", `redis://${address}`]);
    expect(inspected).toMatchObject({ code: 3, stdout: "" });
    said(inspected.stderr.replace(/^kit: /, "").trimEnd());
  });
});

/** No character of it moves the cursor, hides text or turns its direction round. */
const isHarmless = (text: string): boolean => !/[^\P{C}\n]/u.test(text);

describe("text from elsewhere", () => {
  const dangerous = "\u001B]0;owned\u0007 \u009B31m \u202Edesrever";

  it("cannot steer the terminal from an error of the server", async () => {
    // One answer a command, however many come in one piece: a command without one waits for the deadline.
    const server = createServer((socket) =>
      socket
        .on("error", () => undefined)
        .on("data", (piece) => {
          const commands = piece.toString().match(/^\*\d+\r$/gm) ?? [];
          socket.write(`-ERR ${dangerous}\r\n`.repeat(commands.length));
        }),
    );
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    onTestFinished(() => void server.close());
    const url = `redis://127.0.0.1:${String((server.address() as AddressInfo).port)}`;
    const { code, stderr } = await kit(["inspect", "lock", "a", "--url", url]);
    expect(code).not.toBe(0);
    expect(isHarmless(stderr)).toBe(true);
    expect(stderr).toContain("desrever");
    expect(isHarmless((await kit([dangerous])).stderr)).toBe(true);
  });

  it.runIf(process.platform === "linux")("cannot steer the terminal from the lines of a log", async () => {
    const server = await started();
    const file = join(emptyFolder(), "log");
    writeFileSync(file, `${dangerous} é\n\tsecond\n`);
    const beside = programBeside("logship");
    const env = { REDIS_URL: server.url };
    expect(
      (
        await kit(["ship", "web", file, "--limit", "1000000", "--consumers", "one,two", "--close"], {
          program: beside,
          env,
        })
      ).code,
    ).toBe(0);
    const receive = `${process.execPath} ${beside} receive web one --quiet 2>/dev/null`;
    const { PATH = "" } = process.env;
    const child = spawn("script", ["-qec", receive, "/dev/null"], {
      env: { PATH, ...env },
      stdio: ["ignore", "pipe", "pipe"],
    });
    const { stdout } = await ended(child);
    expect(stdout.replaceAll("\r\n", "\n")).toBe("·]0;owned· ·31m ·desrever é\n\tsecond\n");
    // A file or a pipe gets every byte.
    const piped = await kit(["receive", "web", "two", "--quiet"], { program: beside, env });
    expect(piped.stdout).toBe(`${dangerous} é\n\tsecond\n`);
  });
});

describe("a failure with --json", () => {
  it.each([
    ["no server", ["inspect", "lock", "a", "--url", "redis://127.0.0.1:1"], 3, "KIT_UNAVAILABLE"],
    ["an unknown command", ["docter"], 64, null],
    ["a missing argument", ["inspect", "lock", "--url", "redis://127.0.0.1:1"], 3, "KIT_UNAVAILABLE"],
    ["an unknown thing", ["inspect", "no-such"], 64, null],
  ])("is JSON, too: %s", async (_, args, exitCode, code) => {
    const { stdout, stderr, code: ended } = await kit([...args, "--json"]);
    expect(ended).toBe(exitCode);
    expect(JSON.parse(stdout)).toEqual({ version: 1, error: { code, message: expect.stringMatching(/./) }, exitCode });
    expect(stderr).not.toBe("");
  });
});

describe("secrets", () => {
  const secret = "CANARY-7d1f";
  const encodings = [secret, encodeURIComponent(secret), Buffer.from(secret).toString("base64")];
  const leaks = ({ stdout, stderr }: { stdout: string; stderr: string }): string[] =>
    encodings.filter((text) => (stdout + stderr).includes(text));

  it.each([
    ["a password", 0, (port: string) => `redis://:${secret}@127.0.0.1:${port}`],
    ["a password where the name belongs", 3, (port: string) => `redis://${secret}@127.0.0.1:${port}`],
    ["a wrong password", 3, (port: string) => `redis://app:${secret}-wrong@127.0.0.1:${port}`],
    ["no server", 3, () => `redis://:${secret}@127.0.0.1:1`],
    ["a slash in the password", 64, (port: string) => `redis://:a/${secret}@127.0.0.1:${port}`],
    ["an at sign in the password", 64, (port: string) => `redis://:a@${secret}@127.0.0.1:${port}`],
    ["a password in the query", 64, (port: string) => `redis://127.0.0.1:${port}?password=${secret}`],
    ["TLS to a port without it", 3, (port: string) => `rediss://:${secret}@127.0.0.1:${port}`],
    ["a misspelt scheme", 64, (port: string) => `rdeis://:${secret}@127.0.0.1:${port}`],
  ])("are not printed of an address with %s", async (_, exitCode, address) => {
    const server = await started({ password: secret });
    const url = address(String(server.nodes[0]!.port));
    const outcomes = await Promise.all(
      [["doctor"], ["doctor", "--json"], ["inspect", "lock", "a"]].map((args) => kit([...args, "--url", url])),
    );
    expect(outcomes.map(({ code }) => code)).toEqual([exitCode, exitCode, exitCode]);
    for (const outcome of outcomes) {
      expect(leaks(outcome)).toEqual([]);
      expect(outcome.stdout + outcome.stderr).not.toBe("");
    }
  });

  it("are not printed of a lock: neither its token nor a key's value", async () => {
    const server = await started();
    await server.client().set("kit:lock:{a}:lease", `${secret}|web-1`, "PX", 60_000);
    for (const args of [["--keys"], ["--keys", "--json"]]) {
      const outcome = await kit(["inspect", "lock", "a", "--url", server.url, ...args]);
      expect(outcome.stdout).toMatch(/web-1/);
      expect(leaks(outcome)).toEqual([]);
    }
  });
});
