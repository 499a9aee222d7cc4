import { user } from "./acl.js";
import { positionsBehaviour } from "./positions-behaviour.js";

positionsBehaviour("single", user.loginForText);
