import { describe, expect, it, onTestFinished } from "vitest";
import { formLimiters, type Sender } from "../src/common/tools.js";
import { Forms } from "../src/market/forms.js";
import type { Session } from "../src/market/sessions.js";
import { useMarkets } from "./harness.js";

const fixture = useMarkets();
let prefixes = 0;

const setUp = () => {
  const prefix = `forms${++prefixes}`;
  const forms = new Forms(fixture.redis, prefix);
  const limiters = formLimiters(fixture.redis, prefix);
  onTestFinished(async () => {
    await forms.close();
    for (const limiter of Object.values(limiters)) await limiter.close();
  });
  const sessionOf = (user: string, id = "s1"): Session => ({ id, user, csrf: "", notice: "", views: 0, recent: [] });
  const isAdmitted = async (session: Session, address = "192.0.2.1"): Promise<boolean> =>
    (await forms.use(session, address)) === 0;
  /** The limited senders of a kind. */
  const keysOf = async (sender: Sender): Promise<string[]> => {
    const keys = await fixture.redis.keys(`${prefix}:limiter:{forms.${sender}}:key:*`);
    return keys.map((key) => key.slice(key.lastIndexOf(":") + 1));
  };
  const exhaust = async (sender: Sender): Promise<void> => {
    for (const key of await keysOf(sender)) await limiters[sender].penalize(key, 100_000);
  };
  return { prefix, forms, sessionOf, isAdmitted, keysOf, exhaust };
};

describe("Forms", () => {
  it("of a session are refused beyond a hundred in ten seconds, until the first of them are older", async () => {
    const { prefix, forms, sessionOf, isAdmitted } = setUp();
    const session = sessionOf("b");
    const admitted = await Promise.all(Array.from({ length: 110 }, () => isAdmitted(session)));
    expect(admitted.filter(Boolean)).toHaveLength(100);
    const waitMs = await forms.use(session, "192.0.2.1");
    expect(waitMs).toBeGreaterThan(0);
    expect(waitMs).toBeLessThanOrEqual(11_000);
    for (const key of await fixture.redis.keys(`${prefix}:limiter:*`))
      expect(await fixture.redis.pttl(key)).toBeGreaterThan(0);
  });

  it("are counted by persona and by address as well, whatever the session", async () => {
    const { sessionOf, isAdmitted, exhaust } = setUp();
    expect(await isAdmitted(sessionOf("b", "s1"))).toBe(true);
    await exhaust("persona");
    expect([await isAdmitted(sessionOf("b", "s2")), await isAdmitted(sessionOf("c", "s3"))]).toEqual([false, true]);
    await exhaust("address");
    const other = await isAdmitted(sessionOf("d", "s5"), "192.0.2.2");
    expect([await isAdmitted(sessionOf("d", "s4")), other]).toEqual([false, true]);
  });

  it("leave neither an address nor the id of a session in Redis", async () => {
    const { prefix, sessionOf, isAdmitted, keysOf } = setUp();
    await isAdmitted(sessionOf("b", "secret"));
    expect(await keysOf("session")).toHaveLength(1);
    expect((await fixture.redis.keys(`${prefix}:*`)).filter((key) => /secret|192\.0\.2/.test(key))).toEqual([]);
  });
});
