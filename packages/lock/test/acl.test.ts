import { aclBehaviour } from "./acl-behaviour.js";
import { user } from "./acl.js";
import { lockBehaviour } from "./behaviour.js";

aclBehaviour("single");
// What a lock runs is the same with either major of ioredis; what connecting runs has been looked at above.
if (process.env["KIT_IOREDIS"] !== "5") lockBehaviour("single", user.login);
