import { user } from "./acl.js";
import { jobBehaviour } from "./job-behaviour.js";

jobBehaviour("single", user.login);
