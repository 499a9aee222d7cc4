import { user } from "./acl.js";
import { severalNamesBehaviour } from "./several-names-behaviour.js";

severalNamesBehaviour("single", user.loginForText);
