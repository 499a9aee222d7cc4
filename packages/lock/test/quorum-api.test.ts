import { createRequire } from "node:module";
import { describe, expect, it } from "vitest";
import { KitUnavailableError } from "@kit/core";
import * as built from "@kit/lock/quorum";
import * as source from "../src/quorum/index.js";

const surface = ["QuorumError", "SameServerError", "createQuorumLock"];

describe("@kit/lock/quorum", () => {
  it("exports these names and no others, even when it is built, to import and to require", () => {
    const required = createRequire(import.meta.url)("@kit/lock/quorum") as object;
    for (const exported of [source, built, required]) expect(Object.keys(exported).sort()).toEqual(surface);
  });

  it("has errors that report what happened, with a stable code and their facts as fields", () => {
    const error = new source.QuorumError("chest", "was not granted within 500 ms", 2, [
      { server: "a:1", vote: "granted" },
      { server: "b:2", vote: "held", holder: "you", msLeft: 7 },
      { server: "c:3", vote: "abstained", msLeft: 1_000 },
      { server: "d:4", vote: "no-answer", error: new KitUnavailableError("silence", "d:4") },
    ]);
    expect(String(error)).toBe(
      'QuorumError: Lock "chest" was not granted within 500 ms: 2 of 4 servers must agree (a:1: granted; ' +
        'b:2: held by "you", 7 ms left; c:3: abstained for another 1000 ms after its start; d:4: no answer)',
    );
    expect(error).toMatchObject({ code: "KIT_LOCK_QUORUM", retryable: true, resource: "chest", quorum: 2 });
    expect(error.cause).toBeInstanceOf(KitUnavailableError);
    const same = new source.SameServerError(["a:1", "b:2"], [0, 2]);
    expect(String(same)).toBe(
      "SameServerError: clients[0] (a:1) and clients[2] (b:2) lead to the same server. Pass one client for each server",
    );
    const facts = { retryable: false, servers: ["a:1", "b:2"], positions: [0, 2] };
    expect(same).toMatchObject({ code: "KIT_LOCK_SAME_SERVER", ...facts });
    expect(String(new source.SameServerError(["b:2"], [2]))).toBe(
      "SameServerError: clients[2] (b:2) leads to the same server as another client. Pass one client for each server",
    );
  });
});
