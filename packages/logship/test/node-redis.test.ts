import { fromNodeRedis } from "@kit/core/node-redis";
import { useRedis } from "@kit/testing";
import { guardUsers } from "@tooling/vitest/helpers";
import { onNodeRedis } from "@tooling/vitest/node-redis";
import * as vitest from "vitest";
import { describe } from "vitest";
import { user } from "./acl.js";
import { channelBehaviour } from "./channel-behaviour.js";
import { fixtureOf } from "./harness.js";

describe("on a client of node-redis, as its ACL user", () => {
  const redis = useRedis(vitest, { args: user.serverArgs("single"), permanentKeys: ["*"] });
  guardUsers(redis);
  channelBehaviour(redis, fixtureOf(redis, onNodeRedis(user.login, fromNodeRedis)));
});
