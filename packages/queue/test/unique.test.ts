import { uniqueBehaviour } from "./unique-behaviour.js";

uniqueBehaviour("single");
