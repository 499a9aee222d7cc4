import type { FaultView } from "../behind/faults.js";
import { html, type Html, mark } from "./html.js";
import type { Part } from "./live.js";
import { clock, guestNote, intro, postForm } from "./parts.js";

const state = ({ isRunning, secondsLeft, outcome }: FaultView): Html =>
  isRunning
    ? html`<p class="fault-state"><span class="chip held">running</span> recovers within ${secondsLeft} s</p>`
    : outcome === null
      ? html`<p class="fault-state fact">Not run yet.</p>`
      : html`<p class="fault-state">${mark(outcome.isGood)} <span>${clock(outcome.at)} ${outcome.text}</span></p>`;

/** The state of each fault. */
export const faultParts = (faults: readonly FaultView[]): Part[] =>
  faults.map((fault) => [`fault-${fault.name}`, state(fault)]);

const faultItem = (fault: FaultView, csrf: string): Html =>
  html`<li class="panel">
    <h2>${fault.title}</h2>
    <p><span class="label">Promise</span> ${fault.promise}</p>
    <div id="fault-${fault.name}">${state(fault)}</div>
    ${postForm("/faults", { csrf }, html`<button name="fault" value="${fault.name}" class="button">${fault.title}</button>`)}
  </li>`;

export const faultsPage = (faults: readonly FaultView[], csrf: string): Html =>
  html`${intro("Break something", "Each button breaks a running process and tests one promise. Everything recovers automatically. Meanwhile, the bar at the bottom keeps counting money and items.")}
  ${
    faults.length === 0
      ? guestNote("Faults are disabled")
      : html`<ul class="faults">
          ${faults.map((fault) => faultItem(fault, csrf))}
        </ul>`
  }`;
