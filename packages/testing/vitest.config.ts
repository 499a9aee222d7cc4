import { preset } from "@tooling/vitest";

/** What makes clients. */
const alsoWithOlder = ["test/server.test.ts", "test/use-redis.test.ts", "test/use-redis.sentinel.test.ts"];

export default preset({}, { alsoWithOlder });
