import { expect, it } from "vitest";
import { closedPort } from "../servers.js";
import type { Conforming } from "./description.js";
import { type Fixture, codeOf, expectEach, keysOf, type Outcome } from "./ground.js";

const typed = (outcome: Outcome): unknown => ("error" in outcome ? codeOf(outcome.error) : "resolves");

/** Under every fault of the network each call settles, with an error that names the outage. */
export const outages = (fixture: Fixture, object: Conforming): void => {
  const needsServer = keysOf(object, ({ isLocal, persists }) => !isLocal && !persists);

  const calls = needsServer.filter((key) => !object.calls[key]!.prepare);
  if (calls.length > 0)
    it("settles every call to a closed port", async () => {
      const client = fixture.own({ port: closedPort });
      const outcomes = new Map<string, unknown>();
      await Promise.all(
        calls.map(async (key) => {
          outcomes.set(key, typed(await (await fixture.ready(object, key, client, { deadlineMs: 100 })).run()));
        }),
      );
      expectEach(outcomes, () => "KIT_UNAVAILABLE");
    });

  it("settles every call, and close(), when the server is silent", async () => {
    const { proxy, client } = await fixture.proxied();
    const outcomes = new Map<string, unknown>();
    const readies = await Promise.all(
      needsServer
        .filter((key) => !object.calls[key]!.waits)
        // On a busy machine the preparation may exceed the deadline.
        .map((key) => fixture.ground.eventually(() => fixture.ready(object, key, client, { deadlineMs: 500 }))),
    );
    proxy.down.hole = true;
    await Promise.all(readies.map(async (ready) => outcomes.set(ready.key, typed(await ready.run()))));
    if (!object.hasNoClose) await Promise.all(readies.map((ready) => ready.object.close({ timeoutMs: 50 })));
    proxy.heal();
    expectEach(outcomes, () => expect.stringMatching(/^KIT_(?:UNAVAILABLE|UNKNOWN_OUTCOME)$/) as unknown);
  });
};
