import { aclBehaviour } from "./acl-behaviour.js";
import { user } from "./acl.js";
import { semaphoreBehaviour } from "./behaviour.js";

aclBehaviour("single");
// What a semaphore runs is the same with either major of ioredis; what connecting runs has been looked at above.
if (process.env["KIT_IOREDIS"] !== "5") semaphoreBehaviour("single", user.login);
