import { fromNodeRedis } from "@kit/core/node-redis";
import { onNodeRedis } from "@tooling/vitest/node-redis";
import { user } from "./acl.js";
import { geoIpBehaviour } from "./behaviour.js";

geoIpBehaviour("single", onNodeRedis(user.login, fromNodeRedis));
