import { indexBehaviour } from "./index-behaviour.js";

indexBehaviour("cluster");
