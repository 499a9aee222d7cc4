import { geoIpBehaviour } from "./behaviour.js";

geoIpBehaviour("cluster");
