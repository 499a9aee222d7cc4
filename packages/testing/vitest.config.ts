import { preset } from "@tooling/vitest";

/** The files that make clients. */
const alsoWithOlder = ["test/server.test.ts", "test/use-redis.test.ts", "test/use-redis.sentinel.test.ts"];

export default preset({}, { alsoWithOlder });
