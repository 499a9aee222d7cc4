import { jobBehaviour } from "./job-behaviour.js";

jobBehaviour("cluster");
