import { user } from "./acl.js";
import { callBehaviour } from "./call-behaviour.js";

callBehaviour("single", user.login);
