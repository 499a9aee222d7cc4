import { fromNodeRedis } from "@kit/core/node-redis";
import { onNodeRedis } from "@tooling/vitest/node-redis";
import { user } from "./acl.js";
import { semaphoreBehaviour } from "./behaviour.js";

semaphoreBehaviour("single", onNodeRedis(user.login, fromNodeRedis));
