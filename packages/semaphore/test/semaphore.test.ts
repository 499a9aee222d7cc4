import { user } from "./acl.js";
import { semaphoreBehaviour } from "./behaviour.js";

semaphoreBehaviour("single", user.loginForText);
