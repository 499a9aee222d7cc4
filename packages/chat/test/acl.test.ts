import { aclBehaviour } from "./acl-behaviour.js";
import { user } from "./acl.js";
import { chatBehaviour } from "./behaviour.js";

aclBehaviour("single");
chatBehaviour("single", user.loginForText);
