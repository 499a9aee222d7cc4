import { describeMode } from "./modes-behaviour.js";

describeMode("cluster");
