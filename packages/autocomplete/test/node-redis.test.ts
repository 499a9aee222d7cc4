import { fromNodeRedis } from "@kit/core/node-redis";
import { onNodeRedis } from "@tooling/vitest/node-redis";
import { user } from "./acl.js";
import { indexBehaviour } from "./index-behaviour.js";

indexBehaviour("single", onNodeRedis(user.login, fromNodeRedis));
