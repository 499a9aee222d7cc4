import { aclBehaviour } from "./acl-behaviour.js";
import { user } from "./acl.js";
import { semaphoreBehaviour } from "./behaviour.js";

aclBehaviour("cluster");
semaphoreBehaviour("cluster", user.login);
