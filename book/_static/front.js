/* The movable front: draws the numbers of a page, for the federation and the two metrics that a reader chooses. Needs no server. */
"use strict";

(() => {
  const UNIT = 1e-4;
  const REACH = 30; // pixels from which a pointer finds a point
  const RULES = {
    all: "all settings",
    accurate: "the most accurate one on validation rows",
    fair: "the fairest one on validation rows that is accurate enough",
  };
  const ZOOMS = { near: "around the chosen settings", all: "everything" };
  const SHAPES = {
    o: "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0Z", s: "M-3.6-3.6H3.6V3.6H-3.6Z", D: "M0-5L5 0 0 5-5 0Z", d: "M0-5.5L3.3 0 0 5.5-3.3 0Z",
    "^": "M0-5L4.6 3.6H-4.6Z", v: "M0 5L4.6-3.6H-4.6Z", "<": "M-5 0L3.6-4.6V4.6Z", ">": "M5 0L-3.6-4.6V4.6Z",
    X: "M-4.6-2.3L-2.3-4.6 0-2.3 2.3-4.6 4.6-2.3 2.3 0 4.6 2.3 2.3 4.6 0 2.3-2.3 4.6-4.6 2.3-2.3 0Z",
    P: "M-1.7-5H1.7V-1.7H5V1.7H1.7V5H-1.7V1.7H-5V-1.7H-1.7Z",
  };

  /** A polygon of n corners, or a star with n points, the first one above. */
  function polygon(n, inner = 0, turn = 0) {
    const corners = Array.from({ length: inner ? 2 * n : n }, (_, i) => {
      const angle = (2 * Math.PI * i) / (inner ? 2 * n : n) - Math.PI / 2 + turn;
      const radius = inner && i % 2 ? inner : 5;
      return `${(radius * Math.cos(angle)).toFixed(2)} ${(radius * Math.sin(angle)).toFixed(2)}`;
    });
    return `M${corners.join("L")}Z`;
  }
  Object.assign(SHAPES, { p: polygon(5), h: polygon(6), H: polygon(6, 0, Math.PI / 6), 8: polygon(8, 0, Math.PI / 8), "*": polygon(5, 2.2) });

  /** An element with attributes (functions are listeners) and children (text or elements). */
  const made = (create) => (name, attributes = {}, ...children) => {
    const element = create(name);
    for (const [key, value] of Object.entries(attributes)) {
      if (typeof value === "function") element.addEventListener(key, value);
      else if (value !== null) element.setAttribute(key, value);
    }
    element.append(...children.filter((child) => child !== null));
    return element;
  };
  const el = made((name) => document.createElement(name));
  const svg = made((name) => document.createElementNS("http://www.w3.org/2000/svg", name));

  /** The settings that no other beats: points that are as good in both metrics and better in one. Best across comes last. */
  function nonDominated(points, across, up) {
    const good = (point) => [point.x * across, point.y * up];
    const sorted = [...points].sort((one, other) => good(other)[0] - good(one)[0] || good(other)[1] - good(one)[1]);
    let best = -Infinity;
    let last = null;
    const kept = sorted.filter((point) => {
      const [x, y] = good(point);
      if (y < best || (y === best && x !== last)) return false;
      [best, last] = [y, x];
      return true;
    });
    return kept.reverse();
  }

  /** Round numbers from low to high, about so many. */
  function ticks(low, high, many) {
    const raw = (high - low) / many;
    const ten = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map((n) => n * ten).find((n) => n >= raw);
    const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
    const found = [];
    for (let n = Math.ceil(low / step); n * step <= high + 1e-9; n++) found.push([n * step, (n * step).toFixed(digits)]);
    return found;
  }

  function run(root, data) {
    const settings = data.methods.flatMap((method) => method.settings.map((words) => ({ method, words })));
    const names = Object.keys(data.metrics);
    const find = (dataset, name) => data.federations.find((one) => one.dataset === dataset && one.name === name);
    const of = (dataset) => data.federations.filter((one) => one.dataset === dataset);
    const first = data.federations[0];
    const state = { dataset: first.dataset, federation: first.name, x: "eod", y: "acc", settings: "all", zoom: "near" };
    const off = new Set(); // names of methods that are not shown
    let points = [];
    let shown = []; // those inside the frame, from left to right
    let front = new Set();
    let current = null;
    let pinned = null;

    // What is chosen.

    const option = ([value, text]) => el("option", { value }, text);
    const labels = Object.entries(data.metrics).map(([name, metric]) => [name, `${metric.label} (${metric.larger ? "more" : "less"} is better)`]);
    const choices = {
      dataset: ["Dataset", Object.entries(data.datasets)],
      federation: ["Federation", []],
      x: ["Across", labels],
      y: ["Up", labels],
      settings: ["Settings", Object.entries(RULES)],
      zoom: ["Shown", Object.entries(ZOOMS)],
    };
    const selects = {};
    const tools = el("div", { class: "front-tools" });
    for (const [name, [title, options]] of Object.entries(choices)) {
      const select = el("select", { id: `front-${name}`, change: () => change({ [name]: select.value }) }, ...options.map(option));
      selects[name] = select;
      tools.append(el("label", {}, title, select));
    }

    // What is shown.

    const status = el("p", { class: "front-status", role: "status" });
    const card = el("div", { class: "front-card", "aria-live": "polite" });
    const place = el("div", { class: "front-plot" });
    const legend = el("div", { class: "front-legend", role: "group", "aria-label": "Methods that are shown" });
    const table = el("div", { class: "front-scroll" });
    const fold = el("details", { toggle: () => fold.open && fill() }, el("summary", {}, "The points as a table"), table);
    const swatch = (method) => svg("svg", { viewBox: "-7 -7 14 14", width: "14", height: "14", "aria-hidden": "true" },
      svg("path", { d: SHAPES[method.marker] ?? SHAPES.o, fill: method.colour, class: "front-mark" }));
    const buttons = new Map(data.methods.map((method) => {
      const button = el("button", { type: "button", "aria-pressed": "true", click: () => {
        off.has(method.name) ? off.delete(method.name) : off.add(method.name);
        show();
      } }, swatch(method), method.label);
      return [method.name, button];
    }));
    const every = (pressed) => el("button", { type: "button", class: "front-every", click: () => {
      off.clear();
      if (!pressed) data.methods.forEach((method) => off.add(method.name));
      show();
    } }, pressed ? "all" : "none");
    legend.append(every(true), every(false), ...buttons.values());

    function number(metric, place) {
      const [means, halves] = now().values[metric];
      return `${(means[place] * UNIT).toFixed(4)} ± ${(halves[place] * UNIT).toFixed(4)}`;
    }

    const now = () => find(state.dataset, state.federation);
    const sense = (metric) => (data.metrics[metric].larger ? 1 : -1);

    /** The points of the choice, and how many of the settings in question have no value. */
    function collect() {
      const values = now().values;
      const wanted = state.settings === "all" ? null : new Set(now().chosen[state.settings]);
      points = [];
      let missing = 0;
      settings.forEach(({ method, words }, place) => {
        if (off.has(method.name) || (wanted && !wanted.has(place))) return;
        const [x, y] = [state.x, state.y].map((metric) => values[metric]?.[0][place] ?? null);
        if (x === null || y === null) {
          missing += 1;
          return;
        }
        const [dx, dy] = [state.x, state.y].map((metric) => values[metric][1][place] * UNIT);
        points.push({ place, method, words, x: x * UNIT, y: y * UNIT, dx, dy });
      });
      return missing;
    }

    /** The range of an axis: of all points, or of those that the rules choose, since single settings may be far off. */
    function range(axis) {
      const chosen = new Set([...now().chosen.accurate, ...now().chosen.fair]);
      const near = points.filter((point) => chosen.has(point.place));
      const values = (state.zoom === "near" && near.length > 1 ? near : points).map((point) => point[axis]);
      const [low, high] = values.length ? [Math.min(...values), Math.max(...values)] : [0, 1];
      const room = Math.max(0.12 * (high - low), 0.002);
      return [low - room, high + room];
    }

    function show() {
      const missing = collect();
      const joined = nonDominated(points, sense(state.x), sense(state.y));
      front = new Set(joined);
      const [xs, ys] = [range("x"), range("y")];
      shown = points.filter((point) => point.x >= xs[0] && point.x <= xs[1] && point.y >= ys[0] && point.y <= ys[1]);
      shown.sort((one, other) => one.x - other.x || one.y - other.y);
      for (const [name, button] of buttons) button.setAttribute("aria-pressed", String(!off.has(name)));
      for (const [name, select] of Object.entries(selects)) {
        if (name === "federation") select.replaceChildren(...of(state.dataset).map((one) => option([one.name, data.labels[one.name]])));
        select.value = state[name];
      }
      const told = [`Settings that are drawn: ${shown.length}. Seeds: ${now().seeds}`];
      if (shown.length < points.length) told.push(`Outside of the frame: ${points.length - shown.length}`);
      if (missing) told.push(`Without a value, because the method was not run, a run diverged, or the metric is undefined: ${missing}`);
      status.textContent = `${told.join(". ")}.`;
      const before = pinned?.place;
      pinned = shown.find((point) => point.place === before) ?? null;
      current = pinned;
      draw(joined, xs, ys);
      tell();
      if (fold.open) fill();
    }

    function draw(joined, xs, ys) {
      const width = Math.max(280, place.clientWidth || root.clientWidth);
      const height = Math.round(Math.min(560, Math.max(340, width * 0.6)));
      const edge = { left: 52, right: 10, top: 10, bottom: 44 };
      const across = (value) => edge.left + ((value - xs[0]) / (xs[1] - xs[0])) * (width - edge.left - edge.right);
      const up = (value) => height - edge.bottom - ((value - ys[0]) / (ys[1] - ys[0])) * (height - edge.top - edge.bottom);
      const grid = [];
      for (const [value, text] of ticks(...xs, width < 500 ? 4 : 7)) {
        grid.push(svg("path", { d: `M${across(value)} ${edge.top}V${height - edge.bottom}`, class: "grid" }),
          svg("text", { x: across(value), y: height - edge.bottom + 16, "text-anchor": "middle" }, text));
      }
      for (const [value, text] of ticks(...ys, 6)) {
        grid.push(svg("path", { d: `M${edge.left} ${up(value)}H${width - edge.right}`, class: "grid" }),
          svg("text", { x: edge.left - 6, y: up(value) + 4, "text-anchor": "end" }, text));
      }
      const words = (metric) => (data.metrics[metric].larger ? `${data.metrics[metric].label} →` : `← ${data.metrics[metric].label}`);
      const middle = (edge.top + height - edge.bottom) / 2;
      grid.push(svg("text", { x: (edge.left + width - edge.right) / 2, y: height - 8, "text-anchor": "middle" }, words(state.x)),
        svg("text", { x: 12, y: middle, "text-anchor": "middle", transform: `rotate(-90 12 ${middle})` }, words(state.y)));
      // A step: what one setting reaches counts until the next one is reached, and nothing between the two is promised.
      const path = joined.map((point, i) => {
        const [x, y] = [across(point.x), up(point.y)];
        return i ? `L${across(joined[i - 1].x)} ${y}L${x} ${y}` : `M${x} ${y}`;
      }).join("");
      for (const point of shown) {
        const [x, y] = [across(point.x), up(point.y)];
        point.at = [x, y];
        const [w, h] = [(point.dx / (xs[1] - xs[0])) * (width - edge.left - edge.right), (point.dy / (ys[1] - ys[0])) * (height - edge.top - edge.bottom)];
        point.node = svg("a", {
          href: data.page ? `${data.page}#${point.method.entry}` : "#front", class: front.has(point) ? "point on-front" : "point", tabindex: "-1",
          "aria-label": `${point.method.label}, ${point.words}: ${data.metrics[state.x].label} ${number(state.x, point.place)}, ${data.metrics[state.y].label} ${number(state.y, point.place)}`,
          "data-place": String(point.place),
          focus: () => look(point),
        }, svg("path", { class: "reach", d: `M${x - w} ${y}H${x + w}M${x} ${y - h}V${y + h}`, stroke: point.method.colour }),
        svg("path", { class: "front-mark", d: SHAPES[point.method.marker] ?? SHAPES.o, fill: point.method.colour, transform: `translate(${x} ${y})` }));
      }
      const inside = svg("clipPath", { id: "front-inside" }, svg("rect", { x: edge.left, y: 0, width: width - edge.left, height: height - edge.bottom + 4 }));
      const all = svg("g", { "clip-path": "url(#front-inside)" }, svg("path", { class: "joined", d: path || "M0 0" }), ...shown.map((point) => point.node));
      const picture = svg("svg", {
        viewBox: `0 0 ${width} ${height}`, width: String(width), height: String(height), role: "group",
        "aria-label": `${data.metrics[state.y].label} over ${data.metrics[state.x].label}. Arrow keys go from point to point, Enter leads to the method.`,
        pointermove: (event) => look(nearest(event) ?? pinned), pointerleave: () => look(pinned),
        click: (event) => { // a finger or a mouse only chooses; the keyboard, and the link below the figure, lead on
          if (event.detail || !data.page) event.preventDefault();
          if (!event.detail) return;
          pinned = nearest(event);
          look(pinned);
          pinned?.node.focus({ preventScroll: true });
        },
        keydown: keys,
      }, inside, ...grid, all);
      place.replaceChildren(picture);
      const entry = current ?? shown.find((point) => front.has(point)) ?? shown[0];
      entry?.node.setAttribute("tabindex", "0");
    }

    function nearest(event) {
      const box = place.firstChild.getBoundingClientRect();
      const [x, y] = [event.clientX - box.left, event.clientY - box.top];
      let best = null;
      let least = REACH;
      for (const point of shown) {
        const apart = Math.hypot(point.at[0] - x, point.at[1] - y);
        if (apart < least) [best, least] = [point, apart];
      }
      return best;
    }

    function keys(event) {
      const by = { ArrowLeft: ["x", -1], ArrowRight: ["x", 1], ArrowDown: ["y", -1], ArrowUp: ["y", 1] }[event.key];
      const order = [...shown].sort((one, other) => (by?.[0] === "y" ? one.y - other.y || one.x - other.x : 0));
      const here = order.indexOf(current);
      let next = null;
      if (by) next = order[Math.min(Math.max(here + by[1], 0), order.length - 1)];
      else if (event.key === "Home") next = order[0];
      else if (event.key === "End") next = order.at(-1);
      else if (event.key === "Escape") pinned = null;
      if (!next) return;
      event.preventDefault();
      pinned = next;
      look(next);
      next.node.focus({ preventScroll: true });
    }

    /** Show what a point is, and bring it and its method forward. */
    function look(point) {
      if (point === current) return;
      current = point;
      tell();
    }

    function tell() {
      for (const point of shown) {
        point.node.classList.toggle("current", point === current);
        point.node.classList.toggle("other", Boolean(current) && point.method !== current.method);
        if (current) point.node.setAttribute("tabindex", point === current ? "0" : "-1");
      }
      if (!current) {
        card.replaceChildren(el("p", {}, "Point at a setting, or go to the figure with Tab and use the arrow keys. The arrows beside the axes point to what is better."));
        return;
      }
      if (current.node !== document.activeElement) current.node.parentNode.append(current.node); // on top; to move it would end its focus
      const name = el("b", {}, current.method.label);
      const rules = ["accurate", "fair"].filter((rule) => now().chosen[rule].includes(current.place));
      const rows = names.filter((metric) => now().values[metric]?.[0][current.place] != null)
        .map((metric) => el("div", { class: metric === state.x || metric === state.y ? "front-drawn" : null },
          el("dt", {}, data.metrics[metric].label), el("dd", {}, number(metric, current.place))));
      card.replaceChildren(
        el("p", {}, swatch(current.method), " ", name, `, ${current.words}. `,
          rules.length ? `On validation rows it is ${rules.map((rule) => RULES[rule]).join(" and ")}. ` : null,
          data.page ? el("a", { href: `${data.page}#${current.method.entry}` }, `What ${current.method.label} does`) : null),
        el("dl", {}, ...rows),
      );
    }

    function fill() {
      const head = ["method", "setting", data.metrics[state.x].label, data.metrics[state.y].label].map((text) => el("th", { scope: "col" }, text));
      const best = [...points].sort((one, other) => (front.has(other) - front.has(one)) || sense(state.x) * (other.x - one.x));
      const rows = best.map((point) => el("tr", {},
        el("th", { scope: "row" }, data.page ? el("a", { href: `${data.page}#${point.method.entry}` }, point.method.label) : point.method.label),
        el("td", {}, `${point.words}${front.has(point) ? ", on the front" : ""}`), el("td", {}, number(state.x, point.place)), el("td", {}, number(state.y, point.place))));
      table.replaceChildren(el("table", {}, el("thead", {}, el("tr", {}, ...head)), el("tbody", {}, ...rows)));
    }

    // From a choice to the address, and back.

    function change(some) {
      Object.assign(state, some);
      settle();
      show();
      const query = new URLSearchParams(state);
      try {
        history.replaceState(null, "", `${location.pathname}?${query}${location.hash}`);
      } catch { /* some browsers do not let a file's address be changed: then it stays */ }
    }

    /** A federation of the dataset, and metrics that it has. */
    function settle() {
      if (!find(state.dataset, state.federation)) state.federation = of(state.dataset)[0].name;
      for (const axis of ["x", "y"]) if (!(state[axis] in data.metrics)) state[axis] = axis === "x" ? "eod" : "acc";
      if (!(state.settings in RULES)) state.settings = "all";
      if (!(state.zoom in ZOOMS)) state.zoom = "near";
    }

    for (const [name, value] of new URLSearchParams(location.search)) if (name in state) state[name] = value;
    if (!(state.dataset in data.datasets)) state.dataset = first.dataset;
    settle();
    root.replaceChildren(tools, place, card, legend, status, fold);
    show();
    let wide = place.clientWidth;
    new ResizeObserver(() => {
      if (place.clientWidth !== wide) {
        wide = place.clientWidth;
        show();
      }
    }).observe(place);
  }

  const root = document.getElementById("front");
  if (root) run(root, JSON.parse(document.getElementById("front-data").textContent));
})();
