import { inspect } from "node:util";
import { describe, expect, it } from "vitest";
import {
  asKitError,
  isForbidden,
  isReplyError,
  isSlotMoving,
  KitClosedError,
  KitConflictError,
  KitError,
  KitKeyTypeError,
  KitUnavailableError,
  KitUnknownOutcomeError,
  reasonOf,
  replyOf,
  safeCause,
  serverError,
} from "../src/kernel/base/errors.js";

const sha = "f2a6c4a8a5d8f7f2f2b5cf1f0b7d5f2e1a0c9d3b";

const replyError = (message: string): Error => Object.assign(new Error(message), { name: "ReplyError" });

/** As each server puts an error that arose inside a script. */
const forms: readonly [server: string, wrap: (reply: string) => string][] = [
  ["plain, outside a script", (reply) => reply],
  ["Redis 7", (reply) => `${reply} script: ${sha}, on @user_script:12.`],
  ["Redis 6.2", (reply) => `ERR Error running script (call to f_${sha}): @user_script:12: ${reply} `],
  [
    "Redis 6.2, shared errors",
    (reply) => `ERR Error running script (call to f_${sha}): @user_script:12: @user_script: 12: -${reply}`,
  ],
  ["Valkey 9", (reply) => `${reply} script: on @user_script:12.`],
  ["Redis 7.2 and Valkey, inside a function", (reply) => `${reply} script: popIf, on @user_function:12.`],
  ["a proxy", (reply) => reply.replace(/^(?!ERR )/, "ERR ")],
  ["a proxy, inside a script", (reply) => `${reply.replace(/^(?!ERR )/, "ERR ")} script: ${sha}, on @user_script:12.`],
  ["Redis 6.0", (reply) => `ERR Error running script (call to f_${sha}): @user_script: 12: -${reply}`],
];

const replies: readonly [reply: string, code: string, retryable: boolean][] = [
  ["OOM command not allowed when used memory > 'maxmemory'.", "KIT_SERVER_FULL", true],
  ["READONLY You can't write against a read only replica.", "KIT_READONLY", true],
  ["LOADING Redis is loading the dataset in memory", "KIT_LOADING", true],
  ["MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.", "KIT_LOADING", true],
  ["BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.", "KIT_BUSY", true],
  ["UNKILLABLE Sorry the script already executed write commands", "KIT_BUSY", true],
  ["CLUSTERDOWN Hash slot not served", "KIT_CLUSTER", true],
  ["TRYAGAIN Multiple keys request during rehashing of slot", "KIT_CLUSTER", true],
  ["MOVED 866 127.0.0.1:7001", "KIT_CLUSTER", true],
  ["ASK 866 127.0.0.1:7001", "KIT_CLUSTER", true],
  ["CROSSSLOT Keys in request don't hash to the same slot", "KIT_CLUSTER", false],
  ["ERR Script attempted to access a non local key in a cluster node", "KIT_CLUSTER", true],
  ["ERR Attempted to access a non local key in a cluster node", "KIT_CLUSTER", true],
  ["ERR Script attempted to access keys that do not hash to the same slot", "KIT_CLUSTER", false],
  ["NOREPLICAS Not enough good replicas to write.", "KIT_SERVER", true],
  [
    "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
    "KIT_SERVER",
    true,
  ],
  ["NOAUTH Authentication required.", "KIT_AUTH", false],
  ["WRONGPASS invalid username-password pair or user is disabled.", "KIT_AUTH", false],
  ["NOPERM this user has no permissions to access one of the keys used as arguments", "KIT_NO_PERMISSION", false],
  ["ERR The user executing the script can't run this command or subcommand", "KIT_NO_PERMISSION", false],
  ["ERR The user executing the script can't access at least one of the keys mentioned", "KIT_NO_PERMISSION", false],
  ["ERR ACL failure in script: User kit has no permissions to run the 'set' command", "KIT_NO_PERMISSION", false],
  ["ACL failure in script: User kit has no permissions to access the 'a' key", "KIT_NO_PERMISSION", false],
  ["NOSCRIPT No matching script. Please use EVAL.", "KIT_NOSCRIPT", true],
  ["KIT_LAYOUT lock 2", "KIT_LAYOUT", false],
  ["ERR value is not an integer or out of range", "KIT_SERVER", false],
];

it("isSlotMoving takes anything that was thrown", () => {
  expect([null, undefined, "text", 1].map(isSlotMoving)).toEqual([false, false, false, false]);
});

describe("serverError", () => {
  for (const [form, wrap] of forms)
    it(`knows every reply in the form of ${form}`, () => {
      const found = replies.map(([reply]) => {
        const { code, retryable } = serverError(replyError(wrap(reply)), "x");
        return [reply, code, retryable];
      });
      expect(found).toEqual(replies);
    });

  it("says what failed and keeps the reply as the cause", () => {
    const error = serverError(replyError("OOM command not allowed"), "lock.acquire of kit:lock:{x}:lease");
    expect(error.message).toBe(
      "lock.acquire of kit:lock:{x}:lease failed: the server is out of memory. Free some, or raise maxmemory",
    );
    expect((error.cause as Error).message).toBe("OOM command not allowed");
  });

  it("does not take a word in the middle of a reply for its code", () => {
    expect(serverError(replyError("ERR user_script:1: saw OOM and READONLY"), "x").code).toBe("KIT_SERVER");
  });
});

it("isForbidden knows the same replies", () => {
  const every = [
    ...replies.map(([reply]) => reply),
    "ERR unknown command 'WAITAOF', with args beginning with: ",
    "ERR unknown subcommand 'SHARDS'. Try CLUSTER HELP.",
  ];
  for (const [, wrap] of forms)
    expect(every.filter((reply) => isForbidden(replyError(wrap(reply))))).toEqual(
      every.filter((reply) => /^(NOPERM|ERR The user|ERR ACL|ACL|ERR unknown)/.test(reply)),
    );
  expect(isForbidden(new Error("NOPERM x"))).toBe(false);
});

it("says what to do about a server that refuses writes", () => {
  const said = ["READONLY x", "NOREPLICAS x", "MISCONF x"].map((reply) => serverError(replyError(reply), "x").message);
  expect(said).toEqual([
    expect.stringMatching(/`connect\(\)`.*`isolate`.*`reconnectOnError`/),
    expect.stringContaining("min-replicas-to-write"),
    expect.stringContaining("stop-writes-on-bgsave-error"),
  ]);
});

describe("asKitError", () => {
  it("leaves an error of ours alone, and gives a reply of the server its code", () => {
    const own = new KitClosedError("The lock");
    expect(asKitError(own, "Locking")).toBe(own);
    expect(asKitError(replyError("OOM command not allowed"), "Locking")).toMatchObject({
      code: "KIT_SERVER_FULL",
      message: expect.stringMatching(/^Locking failed: /) as string,
    });
  });

  it("makes of any other one that is worth another try, with the place of the fault", () => {
    const fault = Object.assign(new TypeError("x is not a function"), { command: { args: ["secret"] } });
    const error = asKitError(fault, "The heartbeat");
    expect(error).toMatchObject({
      code: "KIT_UNEXPECTED",
      message: "The heartbeat failed: x is not a function",
      retryable: true,
      cause: { name: "TypeError", stack: fault.stack },
    });
    expect(inspect(error, { depth: 9, showHidden: true })).not.toContain("secret");
    for (const thrown of [undefined, null, "text"])
      expect(asKitError(thrown, "The heartbeat").message).toBe(`The heartbeat failed: ${String(thrown)}`);
  });
});

describe("replyOf", () => {
  it("takes both frames off a WRONGTYPE", () => {
    const reply = "WRONGTYPE Operation against a key holding the wrong kind of value";
    expect(forms.map(([, wrap]) => replyOf(wrap(reply)).trim())).toEqual(forms.map(() => reply));
  });

  it("takes the ERR of a proxy off, and no other", () => {
    expect(["ERR MOVED 866 127.0.0.1:7001", "ERR DB index is out of range"].map(replyOf)).toEqual([
      "MOVED 866 127.0.0.1:7001",
      "ERR DB index is out of range",
    ]);
  });

  it("leaves any other message alone", () => {
    expect(replyOf("ERR syntax error")).toBe("ERR syntax error");
  });
});

describe("safeCause", () => {
  it("keeps name, message and code, and nothing that hangs on the error", () => {
    const origin = Object.assign(replyError("WRONGPASS invalid"), {
      code: "EX",
      command: { name: "auth", args: ["default", "canary-1"] },
      previousErrors: [new Error("canary-2")],
    });
    origin.stack = "ReplyError: canary-3";
    const copy = safeCause(origin);
    expect(copy).toMatchObject({ name: "ReplyError", message: "WRONGPASS invalid", code: "EX" });
    expect(inspect(copy, { depth: 9, showHidden: true })).not.toContain("canary");
  });

  it("drops the arguments that a server quotes", () => {
    const origin = replyError("ERR unknown command 'nope', with args beginning with: 'canary' 'b' ");
    expect(safeCause(origin).message).toBe("ERR unknown command 'nope'");
  });

  it("makes an error of whatever was thrown", () => {
    expect(safeCause("plain")).toBeInstanceOf(Error);
    expect(safeCause(undefined).message).toBe("undefined");
  });
});

describe("reasonOf", () => {
  it("is the code where there is one, else the message", () => {
    expect(reasonOf(Object.assign(new Error("connect ECONNREFUSED 127.0.0.1:1"), { code: "ECONNREFUSED" }))).toBe(
      "ECONNREFUSED",
    );
    expect(reasonOf(new Error("Connection is closed."))).toBe("Connection is closed");
  });

  it("is what a Cluster's node said, not that all failed", () => {
    const lastNodeError = Object.assign(new Error("x"), { code: "ECONNREFUSED" });
    expect(reasonOf(Object.assign(new Error("Failed to refresh slots cache."), { lastNodeError }))).toBe(
      "ECONNREFUSED",
    );
  });
});

describe("KitError", () => {
  const all = [
    new KitError("KIT_NAME", "m"),
    new KitUnavailableError("m", "127.0.0.1:1"),
    new KitUnknownOutcomeError("m", "op-1"),
    new KitKeyTypeError("m", "k", "list"),
    new KitConflictError("m", 3),
    new KitClosedError("The lock"),
  ];

  it("names its class, also in a stack trace", () => {
    expect(all.map(({ name }) => name)).toEqual(all.map((error) => error.constructor.name));
  });

  it("is recognised when it comes from another copy of the package", async () => {
    const copy = "../src/kernel/base/errors.js?copy";
    const other = (await import(copy)) as typeof import("../src/kernel/base/errors.js");
    const foreign = new other.KitConflictError("m", 1);
    expect(other.KitError).not.toBe(KitError);
    expect(foreign).toBeInstanceOf(KitError);
    expect(foreign).toBeInstanceOf(KitConflictError);
    expect(foreign).not.toBeInstanceOf(KitClosedError);
    expect(KitError.is(foreign)).toBe(true);
  });

  it("holds for classes of classes, also of another copy", () => {
    const copy = () => {
      class Failed extends KitError {
        static override readonly brand: string = "Failed";
      }
      class FailedTwice extends Failed {
        static override readonly brand: string = "FailedTwice";
      }
      return { Failed, FailedTwice };
    };
    const [one, other] = [copy(), copy()];
    const error = new one.FailedTwice("KIT_BUSY", "twice");
    expect(error.name).toBe("FailedTwice");
    for (const { Failed, FailedTwice } of [one, other]) {
      expect(error).toBeInstanceOf(Failed);
      expect(error).toBeInstanceOf(FailedTwice);
      expect(new one.Failed("KIT_CLOSED", "once")).not.toBeInstanceOf(FailedTwice);
    }
    class Own extends other.FailedTwice {}
    expect(error).not.toBeInstanceOf(Own);
  });

  it("is not mistaken for anything else", () => {
    expect([new Error("x"), { code: "KIT_NAME" }, null, undefined, "KIT_NAME"].map(KitError.is)).toEqual(
      Array(5).fill(false),
    );
    expect(all.every(KitError.is)).toBe(true);
  });

  it("calls an unknown outcome retryable only when it is told so, and else names what a repeat needs", () => {
    const facts = ({ message, retryable, op }: KitUnknownOutcomeError): unknown[] => [message, retryable, op];
    expect(facts(new KitUnknownOutcomeError("m", "op"))).toEqual([
      "m. To repeat it, pass the error's `op`",
      false,
      "op",
    ]);
    expect(facts(new KitUnknownOutcomeError("m", "op", undefined, true))).toEqual(["m", true, "op"]);
    expect(facts(new KitUnknownOutcomeError("m", undefined))).toEqual(["m", false, undefined]);
  });

  it("has no cause unless there was one", () => {
    expect("cause" in new KitError("KIT_NAME", "m")).toBe(false);
  });
});

describe("isReplyError", () => {
  it("goes by the name, since each ioredis brings its own class", () => {
    expect(isReplyError(replyError("x"))).toBe(true);
    expect(isReplyError(new Error("x"))).toBe(false);
    expect(isReplyError({ name: "ReplyError" })).toBe(false);
  });
});

describe("a thrown value that cannot be read", () => {
  const revoked = Proxy.revocable({}, {});
  revoked.revoke();
  const thrower = (field: string): Error =>
    Object.defineProperty(new Error("broken"), field, {
      get: () => {
        throw new Error("no");
      },
    });
  const broken: [string, unknown][] = ["name", "message", "code", "stack", "cause"].map((field) => [
    field,
    thrower(field),
  ]);

  it.each([
    ["revoked", revoked.proxy] as const,
    ["of no prototype", Object.create(null) as unknown] as const,
    ...broken,
  ])("is an error like any other: %s", (_, error) => {
    expect([KitError.is(error), isReplyError(error)]).toEqual([false, false]);
    expect(safeCause(error).message).toMatch(/^(broken|The error cannot be read)$/);
    const wrapped = asKitError(error, "It");
    expect(wrapped).toMatchObject({ code: "KIT_UNEXPECTED", retryable: true });
    expect((wrapped.cause as Error).stack).toMatch(/^Error: /);
  });
});
