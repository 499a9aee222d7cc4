import { user } from "./acl.js";
import { queueBehaviour } from "./behaviour.js";

// As the least privileged user: what the tests' own commands need more, they have by another.
queueBehaviour("single", user.loginForText);
