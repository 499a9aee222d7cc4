import { user } from "./acl.js";
import { readWriteBehaviour } from "./read-write-behaviour.js";

readWriteBehaviour("single", user.loginForText);
