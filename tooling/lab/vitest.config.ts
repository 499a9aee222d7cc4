import { preset } from "@tooling/vitest";

export default preset();
