import { user } from "./acl.js";
import { lockBehaviour } from "./behaviour.js";

lockBehaviour("single", user.loginForText);
