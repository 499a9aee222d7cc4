import { type AclUser, aclUser } from "@tooling/vitest/helpers";

/** The user of this package, as `acl.txt` has it. */
export const user: AclUser = aclUser(new URL("../acl.txt", import.meta.url));
