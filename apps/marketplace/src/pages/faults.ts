import type { FaultView } from "../behind/faults.js";
import { html, type Html, mark } from "./html.js";
import type { Part } from "./live.js";
import { clock, guestNote, intro, postForm } from "./parts.js";

const state = ({ isRunning, secondsLeft, outcome }: FaultView): Html =>
  isRunning
    ? html`<p class="fault-state"><span class="chip held">under way</span> healed within ${secondsLeft} s</p>`
    : outcome === null
      ? html`<p class="fault-state fact">Not tried yet.</p>`
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
  html`${intro("Break something", "Each button does real harm to a running process, and says which promise that puts to the test. Everything heals by itself. The bar at the foot of the page keeps counting money and items meanwhile.")}
  ${
    faults.length === 0
      ? guestNote("Switched off")
      : html`<ul class="faults">
          ${faults.map((fault) => faultItem(fault, csrf))}
        </ul>`
  }`;
