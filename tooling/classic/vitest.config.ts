import { preset } from "@tooling/vitest";

// The ports are a fixed comparator and run on one ioredis only, so the switch to the older major is undone.
export default { ...preset(), resolve: {} };
