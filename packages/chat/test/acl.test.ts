import { aclBehaviour } from "./acl-behaviour.js";
import { user } from "./acl.js";
import { chatBehaviour } from "./behaviour.js";

aclBehaviour("single");
// What a chat runs is the same with either major of ioredis; what connecting runs has been looked at above.
if (process.env["KIT_IOREDIS"] !== "5") chatBehaviour("single", user.login);
