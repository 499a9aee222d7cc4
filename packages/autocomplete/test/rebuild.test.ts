import { user } from "./acl.js";
import { rebuildBehaviour } from "./rebuild-behaviour.js";

rebuildBehaviour("single", user.loginForText);
