// Two comforts: updates can be paused, and a form that takes a moment says so. Without this file the shop works the same.
(() => {
  const pause = document.querySelector("[data-pause]");
  if (pause) {
    let paused = false;
    let missed;
    pause.hidden = false;
    pause.addEventListener("click", () => {
      paused = !paused;
      pause.setAttribute("aria-pressed", String(paused));
      pause.textContent = paused ? "Resume" : "Pause";
      // The stream tells only what changed; a new one begins with all there is.
      if (!paused) missed?.reader?.cancel();
      missed = undefined;
    });
    document.addEventListener("htmx:sse:before:message", (event) => {
      if (!paused) return;
      missed = event.detail.connection;
      event.preventDefault();
    });
  }
  document.addEventListener("submit", (event) => {
    // After this turn, so that the pressed button still says which it was.
    setTimeout(() => {
      for (const button of event.target.querySelectorAll("button")) button.disabled = true;
      event.submitter?.classList.add("busy");
    });
  });
  // A page out of the back-forward cache has its forms as they were when it was left.
  addEventListener("pageshow", (event) => {
    if (!event.persisted) return;
    for (const button of document.querySelectorAll("button")) {
      button.disabled = false;
      button.classList.remove("busy");
    }
  });
})();
