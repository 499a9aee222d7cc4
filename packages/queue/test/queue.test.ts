import { user } from "./acl.js";
import { queueBehaviour } from "./behaviour.js";

// As the least-privilege user; the tests' own commands run as another one.
queueBehaviour("single", user.loginForText);
