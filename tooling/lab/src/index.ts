export {
  type ClientName,
  clientNames,
  connectNodeRedis,
  isClientName,
  nodeRedisMethods,
  type NodeRedisConnection,
} from "./clients.js";
export { clock, clockOrigin, now } from "./clock.js";
export { end, hasEnded, outputOf } from "./process.js";
export { seeded, seededBelow } from "./random.js";
