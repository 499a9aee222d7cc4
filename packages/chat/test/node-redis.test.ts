import { fromNodeRedis } from "@kit/core/node-redis";
import { onNodeRedis } from "@tooling/vitest/node-redis";
import { user } from "./acl.js";
import { chatBehaviour } from "./behaviour.js";

chatBehaviour("single", onNodeRedis(user.login, fromNodeRedis));
