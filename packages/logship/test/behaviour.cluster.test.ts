import { useRedis } from "@kit/testing";
import * as vitest from "vitest";
import { describe } from "vitest";
import { aclBehaviour } from "./acl-behaviour.js";
import { asideBehaviour } from "./aside-behaviour.js";
import { channelBehaviour } from "./channel-behaviour.js";
import { fixtureOf } from "./harness.js";
import { jobBehaviour } from "./job-behaviour.js";

describe("on a Cluster", () => {
  const redis = useRedis(vitest, { mode: "cluster", permanentKeys: ["*"] });
  const fixture = fixtureOf(redis);
  jobBehaviour(redis, fixture);
  channelBehaviour(redis, fixture);
  asideBehaviour(fixture);
  aclBehaviour(redis, fixture);
});
