import { user } from "./acl.js";
import { statsBehaviour } from "./behaviour.js";

statsBehaviour("single", user.loginForText);
