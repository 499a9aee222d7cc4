import { fromNodeRedis } from "@kit/core/node-redis";
import { onNodeRedis } from "@tooling/vitest/node-redis";
import { user } from "./acl.js";
import { lockBehaviour } from "./behaviour.js";

lockBehaviour("single", onNodeRedis(user.login, fromNodeRedis));
