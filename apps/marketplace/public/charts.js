// Draws charts by uPlot in place of those that the server has drawn. Dragging or a key requests another span. The
// server replies with the finest precision that it keeps for that span. Without this file the server's charts stay.
(() => {
  const parts = document.querySelector("#zoomed");
  const status = document.querySelector("[data-status]");
  const zoomKeys = { "=": "+", _: "-" };
  let drawn = [];

  const spans = [
    1, 5, 10, 15, 30, 60, 300, 600, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200, 86_400, 172_800, 604_800, 1_209_600,
  ];
  const tens = Array.from({ length: 9 }, (_, power) => 10 ** power);

  /** The width of a label, in the font of the axes. */
  const pen = document.createElement("canvas").getContext("2d");
  pen.font = '12px system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, "Noto Sans", sans-serif';
  const widthOf = (label) => pen.measureText(label).width;

  const words = (at, stepMs) => {
    const iso = new Date(at).toISOString();
    return stepMs >= 3_600_000 ? `${iso.slice(0, 10)} ${iso.slice(11, 16)}` : iso.slice(11, stepMs >= 60_000 ? 16 : 19);
  };

  /** Labels of an axis: days, and times between them. */
  const labels = (times, stepMs) =>
    times.map((at) => {
      const iso = new Date(at * 1e3).toISOString();
      return stepMs >= 86_400_000 || at % 86_400 === 0 ? iso.slice(5, 10) : iso.slice(11, stepMs >= 60_000 ? 16 : 19);
    });

  const draw = (figure) => {
    const { from, stepMs, shape, unit, series } = JSON.parse(figure.dataset.chart);
    const svg = figure.querySelector("svg[role=img]");
    const isZoomed = parts.contains(figure);
    // The colours are those of the server's chart, for light and dark alike.
    svg.parentElement.removeAttribute("hidden");
    const styles = [...svg.querySelectorAll("[data-series]")].map((path) => getComputedStyle(path));
    const [ink, line] = [getComputedStyle(figure).color, getComputedStyle(svg.querySelector(".rule")).stroke];
    const times = series[0].values.map((_, at) => (from + at * stepMs) / 1_000);
    const axis = { stroke: ink, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 } };
    const box = figure.querySelector(".plot") ?? document.createElement("div");
    const readout = figure.querySelector(".readout") ?? document.createElement("span");
    Object.assign(readout, { className: "readout fact", textContent: "" });
    figure.querySelector("figcaption").append(readout);
    box.className = "plot";
    box.replaceChildren();
    svg.parentElement.before(box);
    for (const part of [svg.parentElement, figure.querySelector(".axis")]) part.setAttribute("hidden", "");
    for (const [name, value] of Object.entries({
      role: isZoomed ? "group" : "img",
      "aria-label": svg.getAttribute("aria-label"),
    }))
      box.setAttribute(name, value);
    const options = {
      width: box.clientWidth,
      height: Math.round(Math.min(240, Math.max(160, box.clientWidth / 4))),
      tzDate: (at) => uPlot.tzDate(new Date(at * 1e3), "Etc/UTC"),
      legend: { show: false },
      // Room for the last label.
      padding: [null, 28, null, null],
      cursor: { y: false, drag: { x: isZoomed, setScale: false }, ...(isZoomed ? { sync: { key: "time" } } : {}) },
      scales: {
        // A bar begins at its time, and a point lies on it.
        x: { range: () => [times[0], times.at(-1) + (shape === "lines" && times.length > 1 ? 0 : stepMs / 1e3)] },
        y: { range: (_, __, most) => [0, Math.max(1, most * 1.05)] },
      },
      axes: [
        // No label between two steps: there is nothing to read off.
        {
          ...axis,
          incrs: spans.filter((span) => span * 1e3 >= stepMs),
          values: (_, at, __, ___, step) => labels(at, step * 1e3),
        },
        {
          ...axis,
          // Counts are whole.
          ...(unit === "" ? { incrs: tens.flatMap((ten) => [ten, 2 * ten, 5 * ten]) } : {}),
          size: (_, values) => 20 + Math.max(20, ...(values ?? []).map(widthOf)),
          values: (_, values) => values.map((value) => `${value.toLocaleString("en-GB")}${unit}`),
        },
      ],
      series: [
        {},
        ...series.map(({ name }, at) => ({
          label: name,
          ...(shape === "bars"
            ? { fill: styles[at].fill, width: 0, paths: uPlot.paths.bars({ size: [0.86, Infinity], align: 1 }) }
            : { stroke: styles[at].stroke, width: 2.5, dash: [0, 7, 2][at] ? [[0, 7, 2][at], 3] : undefined }),
          points: { show: shape === "lines" && times.length < 40 },
        })),
      ],
      hooks: {
        setCursor: [
          ({ cursor: { idx } }) => {
            const values =
              idx == null
                ? []
                : series.map(
                    ({ name, values: own }) =>
                      `${series.length > 1 ? `${name} ` : ""}${own[idx]?.toLocaleString("en-GB") ?? "–"}${unit}`,
                  );
            readout.textContent = idx == null ? "" : `${words(times[idx] * 1e3, stepMs)}: ${values.join(", ")}`;
          },
        ],
        setSelect: [
          (plot) => {
            const { left, width } = plot.select;
            if (width < 4) return;
            const at = (x) => Math.round(plot.posToVal(x, "x") * 1e3);
            void go(`${location.origin}/stats?from=${at(left)}&to=${at(left + width)}`);
          },
        ],
      },
    };
    const plot = new uPlot(options, [times, ...series.map(({ values }) => values)], box);
    drawn.push({ figure, box, plot });
    if (isZoomed) Object.assign(box, { tabIndex: 0 }).dataset.focus = series[0].name;
  };

  const drawAll = () => {
    for (const { plot } of drawn.splice(0)) plot.destroy();
    document.querySelectorAll("[data-chart]").forEach(draw);
  };

  // --- another span ---

  let asked = new AbortController();
  const show = async (href) => {
    asked.abort();
    const mine = (asked = new AbortController());
    try {
      const answer = await fetch(href, { signal: mine.signal });
      if (!answer.ok) throw new Error();
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const focused = document.activeElement?.closest("[data-focus], [data-move]");
      const { focus, move } = focused?.dataset ?? {};
      parts.replaceChildren(...page.querySelector("#zoomed").childNodes);
      document.querySelector("main .tabs").replaceWith(page.querySelector("main .tabs"));
      drawAll();
      if (focus ?? move) parts.querySelector(focus ? `[data-focus="${focus}"]` : `[data-move="${move}"]`)?.focus();
      status.textContent = parts.querySelector(".answered b").textContent;
    } catch {
      // Loads the page itself, which shows the error.
      if (!mine.signal.aborted) location.assign(href);
    }
  };
  const go = async (href) => {
    // The last key requested this span already.
    if (href === location.href) return;
    history.pushState(null, "", href);
    await show(href);
  };
  parts.addEventListener("click", (event) => {
    const link = event.target.closest("[data-move]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    void go(link.href);
  });
  parts.addEventListener("keydown", (event) => {
    if (!event.target.closest("[data-focus]") || event.ctrlKey || event.metaKey || event.altKey) return;
    const link = parts.querySelector(`[data-move="${CSS.escape(zoomKeys[event.key] ?? event.key)}"]`);
    if (!link) return;
    event.preventDefault();
    void go(link.href);
  });
  addEventListener("popstate", () => void show(location.href));

  // --- another width, another scheme ---

  document.documentElement.classList.add("has-charts");
  drawAll();
  let width = parts.clientWidth;
  new ResizeObserver(() => {
    if (width === (width = parts.clientWidth)) return;
    for (const { box, plot } of drawn) plot.setSize({ width: box.clientWidth, height: plot.height });
  }).observe(parts);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
})();
