import { preset } from "@tooling/vitest";

/** The parts that meet the client itself: connecting, executing, and the connections of our own beside it. */
const alsoWithOlder = [
  "test/client.test.ts",
  "test/connect.test.ts",
  "test/connect.sentinel.test.ts",
  "test/durable-clients.test.ts",
  "test/failover.test.ts",
  "test/failover.sentinel.test.ts",
  "test/executor.test.ts",
  "test/inbox.test.ts",
  "test/optimistic.test.ts",
  "test/context.test.ts",
  "test/database.test.ts",
  "test/isolate.cluster.test.ts",
  "test/topology.cluster.test.ts",
];

export default preset({}, { alsoWithOlder });
