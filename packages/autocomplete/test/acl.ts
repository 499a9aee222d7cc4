import { type AclUser, aclUser } from "@tooling/vitest/helpers";
import { descriptor } from "../src/descriptor/index.js";

/** The user of an index. */
export const user: AclUser = aclUser(descriptor);
