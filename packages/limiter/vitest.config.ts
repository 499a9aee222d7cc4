import { preset } from "@tooling/vitest";

export default preset({}, { alsoWithOlder: ["test/smoke.test.ts"] });
