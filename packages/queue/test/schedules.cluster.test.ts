import { schedulesBehaviour } from "./schedules-behaviour.js";

schedulesBehaviour("cluster");
