import { descriptor as chatDescriptor } from "@kit/chat/descriptor";
import { descriptor as lockDescriptor } from "@kit/lock/descriptor";
import { descriptor as semaphoreDescriptor } from "@kit/semaphore/descriptor";
import { FaultProxy } from "@kit/testing";
import { aclUser } from "@tooling/vitest/helpers";
import { describe, expect, it } from "vitest";
import { descriptorOf, knownPackages } from "../src/packages.js";
import { doctor, emptyFolder, ids, installed, programBeside, soundPassword, started } from "./harness.js";

describe("kit doctor with a user that may do little", () => {
  const grants = aclUser(lockDescriptor).grants("single");

  const whole = programBeside(...knownPackages);

  const someFix: unknown = expect.stringMatching(/^Grant the keys, channels and commands/);

  /** The address for a server that has the user, with these rules. */
  const as = async (rules: readonly string[]): Promise<string> => {
    const server = await started({ args: ["--user", "app", "on", ">secret", ...rules] });
    await server.client().call("ACL", "SETUSER", "default", "off");
    return `redis://app:secret@127.0.0.1:${String(server.nodes[0]!.port)}`;
  };

  it("looks at what it may, says what it may not, and exits 0", async () => {
    const { code, of, said } = await doctor(await as(grants), ["--strict"]);
    expect(said("permissions")).toBe("this user has all permissions for @kit/core and @kit/lock");
    for (const id of ["keys-without-expiry", "slow-log", "script-limits"]) {
      expect(of(id).severity).toBe("skipped");
      expect(said(id)).toMatch(/^not permitted: (SCAN|SLOWLOG GET|CONFIG GET)$/);
    }
    expect(of("eviction-policy").severity).toBe("ok");
    expect(of("access").severity).toBe("ok");
    expect([0, 1]).toContain(code);
  });

  it("exits 0 where not even INFO is permitted", async () => {
    const { code, of, said } = await doctor(await as(grants.filter((grant) => grant !== "+info")));
    expect(said("version")).toBe("not permitted: INFO");
    expect(of("memory").severity).toBe("skipped");
    expect(said("permissions")).toBe("this user cannot run INFO: error messages have less detail");
    expect(code).toBe(0);
  });

  it("catches a command that the lock needs", async () => {
    const { code, of } = await doctor(await as(grants.filter((grant) => !/^\+(evalsha|zadd)$/.test(grant))));
    expect(of("permissions").severity).toBe("problem");
    expect(of("permissions").findings).toEqual([
      { severity: "problem", text: "this user cannot run EVALSHA: no kit package works", fix: someFix },
      { severity: "problem", text: "this user cannot run ZADD on kit:lock:*: locks do not work", fix: someFix },
    ]);
    expect(code).toBe(2);
  });

  it("catches a command that the semaphore needs", async () => {
    const rules = aclUser(semaphoreDescriptor).grants("single");
    expect((await doctor(await as(rules))).said("permissions")).toBe(
      "this user has all permissions for @kit/core and @kit/semaphore",
    );
    const { code, said } = await doctor(await as(rules.filter((grant) => grant !== "+zlexcount")));
    expect(said("permissions")).toBe("this user cannot run ZLEXCOUNT on kit:semaphore:*: semaphores do not work");
    expect(code).toBe(2);
  });

  it("asks for no channel where no package uses one", async () => {
    const program = programBeside("chat");
    const { of, said } = await doctor(await as(aclUser(chatDescriptor).grants("single")), [], { program });
    expect(said("permissions")).toBe("this user has all permissions for @kit/core and @kit/chat");
    expect(of("permissions").severity).toBe("ok");
  });

  it.each(knownPackages)("leaves out the packages that it is not meant for, as the user of %s", async (name) => {
    const { permissions } = (await descriptorOf(name))!;
    const rules = aclUser({ name, permissions }).grants("single");
    const { of } = await doctor(await as(rules), ["--skip", "throughput,connection-churn"], { program: whole });
    expect(of("permissions").findings).toEqual([
      { severity: "ok", text: `this user has all permissions for @kit/core and @kit/${name}` },
    ]);
  });

  it("catches keys that it may not touch", async () => {
    const { said } = await doctor(await as(grants.map((grant) => grant.replace(/^~.*/, "~other:*"))));
    expect(said("permissions")).toBe(
      "this user cannot access kit:lock:* or kit:semaphore:*: no installed package works",
    );
  });

  it("catches channels that it may not use", async () => {
    const { said } = await doctor(await as(grants.filter((grant) => !grant.startsWith("&"))));
    expect(said("permissions")).toBe(
      "this user cannot run PUBLISH, SUBSCRIBE on kit:inbox:*: waiting calls poll instead",
    );
  });

  it("looks at the keys of the given prefix", async () => {
    const rules = grants.map((grant) => grant.replace("kit:", "shop:"));
    const url = await as(rules);
    expect((await doctor(url, ["--prefix", "shop"])).of("permissions").severity).toBe("ok");
    expect((await doctor(url)).of("permissions").severity).toBe("problem");
  });
});

describe("kit doctor without a server", () => {
  it("names the refused connection, looks at the folder, and exits 3", async () => {
    // Nothing listens there.
    const url = "redis://127.0.0.1:1";
    const cwd = installed({ "node_modules/ioredis": "6.0.0", "node_modules/a/node_modules/ioredis": "5.4.1" });
    const { code, report, of, said } = await doctor(url, [], { cwd });
    expect(code).toBe(3);
    expect(said("reachability")).toMatch(/ECONNREFUSED/);
    expect(of("reachability").findings[0]!.fix).toMatch(/^Start the server/);
    expect(of("duplicate-copies").severity).toBe("warning");
    expect(report.checks.map(({ id }) => id)).toEqual(ids);
    expect(said("memory")).toBe("no connection");
  });

  it("names a silent server", async () => {
    const server = await started();
    server.nodes[0]!.pause();
    const { code, said } = await doctor(server.url);
    expect(code).toBe(3);
    expect(said("reachability")).toMatch(/^Cannot reach Redis at 127\.0\.0\.1:\d+ after \d\.\d s/);
  });

  it("names a script that does not end", async () => {
    const server = await started({ args: ["--lua-time-limit", "1"] });
    const endless = server.call("EVAL", "while true do end", "0").catch(() => undefined);
    const { code, of, said } = await doctor(server.url);
    expect(code).toBe(3);
    expect(said("reachability")).toMatch(/runs a long script/);
    expect(of("reachability").findings[0]!.fix).toMatch(/SCRIPT KILL/);
    await server.stop();
    await endless;
  });

  it("names the wrong password", async () => {
    const server = await started({ password: "right" });
    const { code, of, said } = await doctor(server.url.replace("right", "wrong"));
    expect(code).toBe(3);
    expect(said("reachability")).toMatch(/rejected the credentials/);
    expect(of("reachability").findings[0]!.fix).toMatch(/^Correct the user name and password/);
  });

  it("names a certificate that has run out", async () => {
    const file = (name: string): string => new URL(`../../core/test/tls/${name}`, import.meta.url).pathname;
    const tlsPort = await freePort();
    await started({
      args: [
        ...["--tls-port", String(tlsPort), "--tls-auth-clients", "no"],
        ...["--tls-cert-file", file("expired.crt"), "--tls-key-file", file("expired.key")],
      ],
    });
    const { code, of, said } = await doctor(`rediss://127.0.0.1:${String(tlsPort)}`, [], {
      env: { NODE_EXTRA_CA_CERTS: file("expired.crt") },
    });
    expect(code).toBe(3);
    expect(said("reachability")).toMatch(/CERT_HAS_EXPIRED/);
    expect(of("reachability").findings[0]!.fix).toMatch(/^Renew the certificate/);
  });
});

/** A port that nobody listens on at this moment. */
const freePort = async (): Promise<number> => {
  const proxy = await FaultProxy.start({ port: 1 });
  const { port } = proxy;
  await proxy.close();
  return port;
};

describe("kit doctor over TLS", () => {
  it("finds the connection encrypted, and measures through it", async () => {
    const file = (name: string): string => new URL(`../../core/test/tls/${name}`, import.meta.url).pathname;
    const tlsPort = await freePort();
    await started({
      password: soundPassword,
      args: [
        ...["--tls-port", String(tlsPort), "--tls-auth-clients", "no"],
        ...["--tls-cert-file", file("loopback.crt"), "--tls-key-file", file("loopback.key")],
      ],
    });
    const url = `rediss://:${encodeURIComponent(soundPassword)}@127.0.0.1:${String(tlsPort)}`;
    const { of, said } = await doctor(url, [], {
      env: { NODE_EXTRA_CA_CERTS: file("loopback.crt") },
      measures: true,
    });
    expect(said("tls")).toBe("encrypted, with a verified server certificate");
    expect(said("throughput")).toMatch(/^a bare socket \S+\/s; one client/);
    expect(of("access").severity).toBe("ok");
  });
});

describe("kit doctor where redis-benchmark is not installed", () => {
  it("measures with a bare socket", async () => {
    const server = await started();
    const { said } = await doctor(server.url, [], { env: { PATH: emptyFolder() }, measures: true });
    expect(said("throughput")).toMatch(/^a bare socket \S+\/s; one client without pipelining \S+\/s \(\d+ %\)/);
  });
});
