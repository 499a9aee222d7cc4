// Completes names, sends messages without a page load, pauses live updates, shows that a form is being sent, and leads
// back after an outage. The shop works without this file.
(() => {
  const make = (tag, props = {}, ...children) => {
    const element = Object.assign(document.createElement(tag), props);
    element.append(...children);
    return element;
  };

  // --- the page of an outage goes back as soon as the shop has its data again ---

  const away = document.querySelector("[data-reopens]");
  const look = async () => {
    try {
      const answer = await fetch("/invariants", { signal: AbortSignal.timeout(5_000) });
      if (answer.ok) return location.replace(away.dataset.reopens);
    } catch {
      // Not even the web server answers.
    }
    setTimeout(() => void look(), 1_000);
  };
  if (away) void look();

  // --- the current page is in view in a bar of links that is wider than the screen ---

  const bar = document.querySelector(".top nav");
  const here = bar?.querySelector("[aria-current]");
  if (here) bar.scrollLeft = here.offsetLeft - (bar.clientWidth - here.offsetWidth) / 2;

  // --- names complete while they are typed (the combobox pattern of ARIA) ---

  for (const input of document.querySelectorAll("[data-suggest]")) {
    const list = make("ul", { id: `${input.id}-list`, className: "suggestions", hidden: true });
    list.setAttribute("role", "listbox");
    list.setAttribute("aria-label", "Suggestions");
    input.parentElement.append(list);
    for (const [name, value] of Object.entries({
      role: "combobox",
      "aria-autocomplete": "list",
      "aria-expanded": "false",
      "aria-controls": list.id,
    }))
      input.setAttribute(name, value);
    let asked = new AbortController();
    let chosen = -1;
    const options = () => [...list.children];
    const choose = (next) => {
      chosen = next;
      options().forEach((option, at) => option.setAttribute("aria-selected", String(at === next)));
      if (next < 0) input.removeAttribute("aria-activedescendant");
      else {
        input.setAttribute("aria-activedescendant", options()[next].id);
        options()[next].scrollIntoView({ block: "nearest" });
      }
    };
    const close = () => {
      asked.abort();
      list.hidden = true;
      input.setAttribute("aria-expanded", "false");
      choose(-1);
    };
    const take = (option) => {
      if (option.dataset.href) location.assign(option.dataset.href);
      else {
        input.value = option.dataset.text;
        close();
      }
    };
    const show = (hits) => {
      list.replaceChildren(
        ...hits.map(({ text, ranges, kind, href = "" }, at) => {
          const name = make("bdi");
          let from = 0;
          for (const [start, end] of ranges) {
            name.append(text.slice(from, start), make("mark", { textContent: text.slice(start, end) }));
            from = end;
          }
          name.append(text.slice(from));
          const option = make(
            "li",
            { id: `${list.id}-${at}` },
            name,
            make("span", { className: "kind", textContent: kind }),
          );
          Object.assign(option.dataset, { href, text });
          option.setAttribute("role", "option");
          return option;
        }),
      );
      choose(-1);
      list.hidden = hits.length === 0;
      input.setAttribute("aria-expanded", String(hits.length > 0));
    };
    const ask = async () => {
      // The latest key wins; it aborts the request before.
      asked.abort();
      const mine = (asked = new AbortController());
      if (input.value.trim() === "") return close();
      try {
        const answer = await fetch(`${input.dataset.suggest}?q=${encodeURIComponent(input.value)}`, {
          signal: mine.signal,
        });
        if (answer.ok && mine === asked) show(await answer.json());
      } catch {
        // A newer request aborted this one, or the shop does not answer. The form still works.
      }
    };
    input.addEventListener("input", () => void ask());
    input.addEventListener("keydown", (event) => {
      const last = options().length - 1;
      if (event.key === "Escape" && !list.hidden) {
        event.preventDefault();
        close();
      } else if (list.hidden || last < 0) return;
      else if (event.key === "ArrowDown") choose(chosen >= last ? 0 : chosen + 1);
      else if (event.key === "ArrowUp") choose(chosen <= 0 ? last : chosen - 1);
      else if (event.key === "Enter" && chosen >= 0) take(options()[chosen]);
      else return;
      event.preventDefault();
    });
    // Not click: by then the field has lost the focus, which closes the list.
    list.addEventListener("pointerdown", (event) => {
      event.preventDefault();
      const option = event.target.closest("[role=option]");
      if (option) take(option);
    });
    input.addEventListener("blur", close);
  }

  // --- a message is sent without a new page ---

  const chat = document.querySelector("#chat");
  const toEnd = () => {
    if (chat) chat.scrollTop = chat.scrollHeight;
  };
  toEnd();
  if (chat) new MutationObserver(toEnd).observe(chat, { childList: true });
  const say = async (form) => {
    const body = new URLSearchParams(new FormData(form));
    const field = form.elements.text;
    try {
      const answer = await fetch(form.action, { method: "POST", body, headers: { accept: "application/json" } });
      if (!answer.ok) throw new Error();
      field.value = "";
      field.setCustomValidity("");
      // A new id, so that the next message does not count as a repeat.
      form.elements.id.value = crypto.randomUUID();
    } catch {
      // The id stays. If the message did arrive, sending it again changes nothing.
      field.setCustomValidity("Your request was not sent. Try again.");
      field.reportValidity();
    }
  };
  for (const form of document.querySelectorAll("form.say"))
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      event.stopPropagation();
      void say(form);
    });
  document.addEventListener("input", (event) => event.target.setCustomValidity?.(""));

  // --- live updates can be paused; an outage is shown ---

  const pause = document.querySelector("[data-pause]");
  const offline = document.querySelector("[data-offline]");
  const status = document.querySelector("[data-status]");
  if (pause) {
    let paused = false;
    let missed;
    let heardAt = performance.now();
    pause.hidden = false;
    pause.addEventListener("click", () => {
      paused = !paused;
      pause.setAttribute("aria-pressed", String(paused));
      pause.textContent = paused ? "Resume" : "Pause";
      // A stream sends only changes. A new one without a last event id begins with all parts.
      if (!paused) missed?.reader?.cancel();
    });
    document.addEventListener("htmx:sse:before:connection", ({ detail }) => {
      // Cleared only here: messages that arrived together with a missed one have set the id since.
      if (missed) detail.connection.lastEventId = "";
      if (!paused) missed = undefined;
    });
    document.addEventListener("htmx:sse:before:message", (event) => {
      heardAt = performance.now();
      if (!paused) return;
      missed = event.detail.connection;
      event.preventDefault();
    });
    // One status line for screen readers, at most every five seconds. The panels are not announced.
    let said = "";
    setInterval(() => {
      const money = document.querySelector("#bar-money")?.textContent.replace(/\s+/g, " ").trim() ?? "";
      const isBad = document.querySelector(".bar .mark.bad") !== null;
      const now = isBad ? money : "";
      if (now !== said) status.textContent = said = now;
      // Without a stream the state of the page is unknown.
      if (!offline) return;
      const silent = Math.round((performance.now() - heardAt) / 1_000);
      offline.hidden = navigator.onLine !== false && !(isAway && silent > 3);
      if (isOver) return;
      offline.textContent = `The shop is unreachable. This page has not been updated for ${silent} s.`;
    }, 5_000);
    let isAway = false;
    let isOver = false;
    const gone = ({ detail }) => {
      isAway = true;
      isOver = [401, 404].includes(detail?.status);
      offline.textContent = isOver
        ? "You switched personas. Reload this page."
        : "The shop is unreachable. Retrying every second.";
      offline.hidden = false;
    };
    document.addEventListener("htmx:sse:error", gone);
    document.addEventListener("htmx:sse:close", gone);
    const back = () => {
      isAway = false;
      if (offline) offline.hidden = true;
    };
    // A page that is up to date receives no message after it reconnects.
    document.addEventListener("htmx:sse:after:connection", back);
    document.addEventListener("htmx:sse:after:message", back);
  }

  // --- forms ---

  document.addEventListener("submit", (event) => {
    if (event.defaultPrevented || event.target.method === "get") return;
    // After this event: a disabled button is left out of the form's data.
    setTimeout(() => {
      for (const button of event.target.querySelectorAll("button")) button.disabled = true;
      event.submitter?.classList.add("busy");
    });
  });
  // A page from the back-forward cache still has its buttons disabled.
  addEventListener("pageshow", (event) => {
    if (!event.persisted) return;
    for (const button of document.querySelectorAll("button")) {
      button.disabled = false;
      button.classList.remove("busy");
    }
  });

  const drawer = document.querySelector(".drawer");
  if (drawer) {
    document.addEventListener("click", (event) => {
      if (!drawer.contains(event.target)) drawer.open = false;
    });
    document.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || !drawer.open) return;
      drawer.open = false;
      drawer.querySelector("summary").focus();
    });
  }
})();
