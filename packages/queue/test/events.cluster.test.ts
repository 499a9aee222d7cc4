import { eventsBehaviour } from "./events-behaviour.js";

eventsBehaviour("cluster");
