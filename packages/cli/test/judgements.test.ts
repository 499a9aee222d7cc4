import { connect } from "node:net";
import { describe, expect, it } from "vitest";
import { portsKept } from "../src/doctor/connection-churn.js";
import { unreachable } from "../src/doctor/reachability.js";
import { judgeRates } from "../src/doctor/throughput.js";
import { judgeTls } from "../src/doctor/tls.js";
import { judgeVersion } from "../src/doctor/version.js";
import { withoutCredentials } from "../src/target.js";

describe("a version", () => {
  it.each([
    ["redis", "6.0.16", "problem"],
    ["redis", "6.2.19", "warning"],
    ["redis", "6.2.20", "ok"],
    ["redis", "7.0.15", "warning"],
    ["redis", "7.2.11", "ok"],
    ["redis", "7.4.5", "warning"],
    ["redis", "8.0.4", "ok"],
    ["redis", "8.2.1", "warning"],
    ["redis", "8.4.0", "ok"],
    ["valkey", "7.2.10", "warning"],
    ["valkey", "8.1.4", "ok"],
    ["valkey", "9.0.0", "ok"],
    ["valkey", "6.2.0", "problem"],
  ] as const)("of %s %s is %s", (server, version, severity) => {
    expect(judgeVersion(server, version).severity).toBe(severity);
  });

  it("that has no fix in its branch names the next one", () => {
    expect(judgeVersion("redis", "7.0.14").fix).toMatch(/^Upgrade to 7\.2\.11 or newer\. Your distribution's package/);
  });

  it.each([
    ["redis", "7.0.15", "5:7.0.15-1~deb12u6"],
    ["redis", "8.0.2", "5:8.0.2-3+deb13u1"],
    ["valkey", "8.1.1", "8.1.1+dfsg1-3+deb13u1"],
  ] as const)("that kit itself is tested on says so: %s %s", (server, version, fixed) => {
    const { fix } = judgeVersion(server, version);
    expect(fix).toContain(
      `Debian's package has the fixes since ${fixed}, without a new version number (dpkg -s ${server}-server).`,
    );
  });
});

describe("the rates of one client", () => {
  const rates = { yardstick: 40_000, perCall: 1_600, measuredBy: "redis-benchmark" };

  it("are normal from 50 to 60 % on without pipelining", () => {
    const { severity, text } = judgeRates({ ...rates, single: 22_000 });
    expect(severity).toBe("ok");
    expect(text).toBe(
      "redis-benchmark 40k/s; one client without pipelining 22k/s (55 %); a connection per call 1600/s (4 %). Without pipelining, 50 to 60 % is normal. An application at 30 % or less opens a connection per call",
    );
  });

  it("are reported as lower than usual, but not as wrong, where a busy machine explains them", () => {
    const { severity, text } = judgeRates({ ...rates, single: 14_000 });
    expect(severity).toBe("ok");
    expect(text).toMatch(/\(35 %\).*\. Below the usual 50 to 60 %, as on a busy machine$/);
  });

  it("are too low for a kept connection at half of that", () => {
    const { severity, text } = judgeRates({ ...rates, single: 8_000 });
    expect(severity).toBe("warning");
    expect(text).toMatch(/\(20 %\).*This is less than half of the normal rate/);
  });

  it("are explained when the system has no port left: a connection per call", async () => {
    // An address that is not this machine's gives the very error of a machine that has run out of ports.
    const error = await new Promise((resolve) => {
      connect({ host: "127.0.0.1", port: 9, localAddress: "192.0.2.1" }).on("error", resolve);
    });
    const { severity, text, fix } = await unreachable(error);
    expect(severity).toBe("problem");
    expect(text).toMatch(/EADDRNOTAVAIL/);
    expect(fix).toMatch(/no local port left because a client opens a connection per call/);
  });
});

describe("a table of Linux' connections", () => {
  it("counts the ports that are kept for closed connections to a server", () => {
    const line = (to: string, state: string): string =>
      `   0: 0100007F:D1A2 ${to} ${state} 00000000:00000000 03:00000E9F 00000000     0        0 0 3 0000000000000000`;
    const table = [
      "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode",
      line("0100007F:18EB", "06"),
      line("0000000000000000FFFF00000100007F:18EB", "06"),
      line("0100007F:18EB", "01"),
      line("0100007F:18EC", "06"),
    ].join("\n");
    expect(portsKept(table, 6_379)).toBe(2);
  });
});

describe("a connection", () => {
  it.each([
    ["127.0.0.1", false, "ok"],
    ["localhost", false, "ok"],
    ["::1", false, "ok"],
    ["10.1.2.3", false, "warning"],
    ["cache.example.org", false, "warning"],
    ["cache.example.org", true, "ok"],
  ] as const)("to %s, encrypted: %s, is %s", (host, hasTls, severity) => {
    expect(judgeTls(host, hasTls, true).severity).toBe(severity);
  });

  it("in the clear is reported to carry the password, where there is one", () => {
    expect(judgeTls("192.0.2.7", false, true).text).toMatch(/password/);
    expect(judgeTls("192.0.2.7", false, false).text).not.toMatch(/password/);
  });
});

describe("an address", () => {
  it.each([
    ["redis://user:secret@h:1/2", "redis://h:1/2"],
    ["redis://secret@h", "redis://h"],
    ["rediss+cluster://:secret@a:1,b:2", "rediss+cluster://a:1,b:2"],
    ["redis+sentinel://u:s%2Fe@a:1,b:2/name/3", "redis+sentinel://a:1,b:2/name/3"],
    ["redis://h:1", "redis://h:1"],
    ["unix:///run/redis.sock?db=1", "unix:///run/redis.sock?db=1"],
  ])("%s is printed without its credentials", (url, printed) => {
    expect(withoutCredentials(url)).toBe(printed);
  });
});
