import { mailboxBehaviour } from "./mailbox-behaviour.js";

mailboxBehaviour("cluster");
