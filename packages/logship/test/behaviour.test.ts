import { useRedis } from "@kit/testing";
import { guardUsers } from "@tooling/vitest/helpers";
import * as vitest from "vitest";
import { describe } from "vitest";
import { quarantineBehaviour } from "./quarantine-behaviour.js";
import { user } from "./acl.js";
import { channelBehaviour } from "./channel-behaviour.js";
import { fixtureOf } from "./harness.js";
import { jobBehaviour } from "./job-behaviour.js";

describe("on a single server, as its ACL user", () => {
  const redis = useRedis(vitest, { args: user.serverArgs("single"), permanentKeys: ["*"] });
  guardUsers(redis);
  const fixture = fixtureOf(redis, user.loginForText);
  jobBehaviour(redis, fixture);
  channelBehaviour(redis, fixture);
  quarantineBehaviour(fixture);
});
