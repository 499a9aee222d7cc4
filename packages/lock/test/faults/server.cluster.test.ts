import { describe, it } from "vitest";
import { expectLawful, runTimeoutMs } from "./expect.js";
import {
  emptyServer,
  flushScripts,
  killCommandConnections,
  killServer,
  killSubscribers,
  loseReply,
  silenceServer,
  swallow,
} from "./strikes.js";

describe.each(["single", "cluster"] as const)("a server that answers, %s", (mode) => {
  it(
    "SCRIPT FLUSH: keeps every law",
    async () => void (await expectLawful({ mode, strike: flushScripts })),
    runTimeoutMs,
  );

  it(
    "CLIENT KILL of command connections: keeps every law",
    async () => void (await expectLawful({ mode, strike: killCommandConnections })),
    runTimeoutMs,
  );

  it(
    "CLIENT KILL of subscribers: keeps every law",
    async () => void (await expectLawful({ mode, strike: killSubscribers })),
    runTimeoutMs,
  );
});

describe("a server that does not answer", () => {
  it(
    "SIGSTOP of the server: keeps every law",
    async () => void (await expectLawful({ strike: silenceServer })),
    runTimeoutMs,
  );

  it(
    "a link that swallows what is sent: keeps every law",
    async () => void (await expectLawful({ strike: swallow, isProxied: true })),
    runTimeoutMs,
  );

  it(
    "replies that are lost: keeps every law",
    async () => void (await expectLawful({ strike: loseReply, isProxied: true })),
    runTimeoutMs,
  );
});

describe("a server that dies", () => {
  it(
    "kill -9 and back with its data: keeps every law",
    async () => void (await expectLawful({ strike: killServer, persistence: "always" })),
    runTimeoutMs,
  );

  it(
    "kill -9 and back empty: tokens still grow, and nobody holds on beyond its lease",
    async () => void (await expectLawful({ strike: emptyServer, isRegisterApart: true })),
    runTimeoutMs,
  );
});
