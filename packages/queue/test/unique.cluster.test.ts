import { uniqueBehaviour } from "./unique-behaviour.js";

uniqueBehaviour("cluster");
