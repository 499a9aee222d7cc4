import { statsBehaviour } from "./behaviour.js";

statsBehaviour("cluster");
