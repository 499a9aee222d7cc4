import { type AclUser, aclUser } from "@tooling/vitest/helpers";
import { descriptor } from "../src/descriptor/index.js";

/** The user of a limiter. */
export const user: AclUser = aclUser(descriptor);
