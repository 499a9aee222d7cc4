import { eventsBehaviour } from "./events-behaviour.js";

eventsBehaviour("single");
