import { connect } from "@kit/core";
import { useRedis } from "@kit/testing";
import {
  describeUser,
  expectGranted,
  grantedCommands,
  inModes,
  rejection,
  usedCommands,
} from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe, expect, it } from "vitest";
import { user } from "./acl.js";
import { fixtureOf, named, permanentKeys, texts } from "./harness.js";

/** The descriptor grants what the package needs and no more, and the page shows it. */
inModes({}, (mode) => {
  describe(`the ACL user of an index and a book on a ${mode === "cluster" ? "Cluster" : "single server"}`, () => {
    const redis = useRedis(vitest, { mode, permanentKeys });
    const fixture = fixtureOf(redis);

    it("is granted the commands that they run, and no other", async () => {
      const { server } = redis;
      const spoilt = fixture.keysOf("spoilt").index;
      await fixture.db.rpush(spoilt, "not an index");
      await fixture.db.pexpire(spoilt, 60_000);
      await Promise.all(server.nodes.map((node) => node.call("CONFIG", "RESETSTAT")));

      const client = await connect({ url: redis.url, deadlineMs: 10_000 });
      redis.defer(() => client.close());
      const index = fixture.indexOn(client, { order: "weight", empty: "top", isolate: true });
      await index.putMany(named("Ann", "Anna", "Bob"));
      await index.put({ id: "Bob", text: "Robert" });
      await index.touch("Ann");
      for (const query of ["", "an", "anna", "anna b"]) await index.suggest(query);
      await index.suggest("anna b", { words: "any-order" });
      await index.delete("Ann");
      const source = async function* () {
        yield* named("Carl");
        await index.put({ id: "live", text: "Live" });
        await index.touch("live");
        yield* named("Cleo", "live");
      };
      await index.rebuild(source());
      // A rebuild that died.
      await fixture.db.hset(fixture.keysOf().index, "staging", "dead");
      await index.put({ id: "after", text: "After" });
      await index.inspect();
      const sharded = fixture.indexOn(client, { name: "sharded", shards: 2 });
      await sharded.put({ id: "1", text: "One Two" });
      await sharded.purge();
      const book = fixture.bookOn(client, { ranking: "frecent", max: 2 });
      for (const id of ["a", "b", "c"]) await book.record(id, { text: `Name ${id}` });
      await book.record("c");
      await fixture.bookOn(client).record("d");
      await fixture.bookOn(client, { keepMs: null }).record("d");
      await book.block("a");
      await book.unblock("a");
      await book.remove("b");
      await book.list();
      await book.purge();
      const error = await rejection(fixture.indexOn(client, { name: "spoilt" }).suggest("a"));
      expect(error).toMatchObject({ code: "KIT_KEY_TYPE", key: spoilt });
      await Promise.all([index.close(), sharded.close(), book.close()]);

      // The package also runs the command that this test uses for a dead rebuild.
      expectGranted(await usedCommands(server.nodes), grantedCommands(user.grants(mode)));
    });

    describeUser(user, redis, new URL("../docs/operations.md", import.meta.url), async (client) => {
      const index = fixture.indexOn(client);
      await index.put({ id: "1", text: "Ann" });
      expect(texts(await index.suggest("a"))).toEqual(["Ann"]);
      return fixture.keysOf().index;
    });
  });
});
