import { user } from "./acl.js";
import { channelBehaviour } from "./channel-behaviour.js";

channelBehaviour("single", user.login);
