import { user } from "./acl.js";
import { bookBehaviour } from "./book-behaviour.js";

bookBehaviour("single", user.loginForText);
