import { manageBehaviour } from "./manage-behaviour.js";

manageBehaviour("cluster");
