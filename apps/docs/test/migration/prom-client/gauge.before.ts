import { Gauge, register } from "prom-client";

const open = new Set(["ann", "bob"]);
new Gauge({
  name: "sessions",
  help: "Open sessions",
  collect() {
    this.set(open.size);
  },
});

const text = await register.getSingleMetricAsString("sessions");
for (const line of text.trim().split("\n")) console.log(line);
// prints: # HELP sessions Open sessions
// prints: # TYPE sessions gauge
// prints: sessions 2
