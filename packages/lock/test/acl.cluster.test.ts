import { aclBehaviour } from "./acl-behaviour.js";
import { user } from "./acl.js";
import { lockBehaviour } from "./behaviour.js";

aclBehaviour("cluster");
lockBehaviour("cluster", user.login);
