import { lockBehaviour } from "./behaviour.js";

lockBehaviour("cluster");
