export {
  type AclUser,
  aclUser,
  type ClientGround,
  clientsOf,
  describeUser,
  expectGranted,
  grantedCommands,
  guardUsers,
  type Login,
  migrateLogin,
  usedCommands,
} from "./acl.js";
export { commandCall, describeDescriptor, inspectCall } from "./descriptor.js";
export { describeExamples, describeTestProgram, printedBy } from "./examples.js";
export { exposures } from "./exposure.js";
export { drawing, guardPrototypes, hostileNames, polluted } from "./hostile.js";
export { cutAfter, cutBefore, cutWithin, HttpBridge, served, silence, status } from "./http-bridge.js";
export { about, anInbox, type KeyState, nothing, stateOf, unchanged } from "./keys.js";
export { enqueued, type LeaseFixture, leaseFixture } from "./lease-fixture.js";
export { losingOnce } from "./losses.js";
export { describeMigration } from "./migration.js";
export { inModes } from "./modes.js";
export { onMovingSlots, type RareCall } from "./moving-slots.js";
export { Peer, Program, runProgram } from "./programs.js";
export { aborted, rejection, type Watched, watched } from "./promises.js";
export { expectRefusal } from "./refusals.js";
export { type HeldRequest, RequestProxy } from "./request-proxy.js";
export { recordTold, tappedTokens, tokenPattern, withoutOp } from "./secrets.js";
export {
  aMonitor,
  callsOf,
  closedPort,
  endMigrations,
  firstServing,
  removeNode,
  freePort,
  inboxes,
  inStep,
  lapse,
  moveSlot,
  nodeOf,
  scriptCalls,
  sentTwice,
} from "./servers.js";
export { atBest, block, clock, cutOffRenewed, promptMs, renewedTwice, timed, watchStalls } from "./time.js";
