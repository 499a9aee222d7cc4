import { user } from "./acl.js";
import { indexBehaviour } from "./index-behaviour.js";

indexBehaviour("single", user.loginForText);
