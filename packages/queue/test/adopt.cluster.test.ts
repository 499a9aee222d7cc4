import { adoptBehaviour } from "./adopt-behaviour.js";

adoptBehaviour("cluster");
