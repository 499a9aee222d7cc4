import { positionsBehaviour } from "./positions-behaviour.js";

positionsBehaviour("cluster");
