import { crashBehaviour } from "./crash-behaviour.js";

crashBehaviour("cluster");
