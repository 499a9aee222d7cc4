import { fromNodeRedis } from "@kit/core/node-redis";
import { onNodeRedis } from "@tooling/vitest/node-redis";
import { user } from "./acl.js";
import { statsBehaviour } from "./behaviour.js";

statsBehaviour("single", onNodeRedis(user.login, fromNodeRedis));
