// Code that the pages share. The board loads the queue's pages on first use, and they must not contain a copy of this code.
export { commandOf, InputError, inspectorOf, look, type Outcome, read, run, type Values } from "./call.js";
export { argumentFields, argumentsOf, optionFields, valuesOf } from "./form.js";
export {
  address,
  bytes,
  capital,
  count,
  foreign,
  html,
  type Html,
  instant,
  none,
  prose,
  thingAddress,
  visible,
} from "./html.js";
export { factList, note, overviewPath, placeFields, reportTable, tableOf, thingLink } from "./parts.js";
export { type Sample, Samples } from "./samples.js";
export { actionsOf, keysPart, pathTo, thingPage } from "./thing.js";
export { type Page, type View } from "./view.js";
