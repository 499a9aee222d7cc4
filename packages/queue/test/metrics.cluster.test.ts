import { metricsBehaviour } from "./metrics-behaviour.js";

metricsBehaviour("cluster");
