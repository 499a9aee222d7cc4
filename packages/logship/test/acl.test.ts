import { useRedis } from "@kit/testing";
import * as vitest from "vitest";
import { aclBehaviour } from "./acl-behaviour.js";
import { fixtureOf } from "./harness.js";

const redis = useRedis(vitest, { permanentKeys: ["*"] });
aclBehaviour(redis, fixtureOf(redis));
