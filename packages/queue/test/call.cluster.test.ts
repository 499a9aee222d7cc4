import { callBehaviour } from "./call-behaviour.js";

callBehaviour("cluster");
