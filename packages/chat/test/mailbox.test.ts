import { user } from "./acl.js";
import { mailboxBehaviour } from "./mailbox-behaviour.js";

mailboxBehaviour("single", user.loginForText);
