import { user } from "./acl.js";
import { geoIpBehaviour } from "./behaviour.js";

geoIpBehaviour("single", user.loginForText);
