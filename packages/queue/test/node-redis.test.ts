import { fromNodeRedis } from "@kit/core/node-redis";
import { onNodeRedis } from "@tooling/vitest/node-redis";
import { user } from "./acl.js";
import { queueBehaviour } from "./behaviour.js";

queueBehaviour("single", onNodeRedis(user.login, fromNodeRedis));
