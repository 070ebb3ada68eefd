/* The ledger's page: searches, filters, sorts, pages and draws the claims that stand in its plain tables. Needs no server. */
"use strict";

(() => {
  const SIZE = 25;
  const { words, terms, matches, score } = globalThis.fairflWords;
  const DRAWN = ["effect", "level", "spread", "draw"];
  const POWERS = { high: "0.8 or more", some: "0.5 to 0.8", low: "below 0.5", none: "not computed" };
  const ASKED = { paper: "the paper's claim", ours: "our question" };
  const SORTS = {
    order: "best match, then as in the papers",
    id: "id",
    printed: "printed number",
    measured: "our number",
    apart: "difference in margins",
    seeds: "runs",
    margin: "margin",
    power: "power",
    verdict: "verdict",
  };
  const COLUMNS = [["id", "claim"], ["printed", "printed"], ["measured", "ours"], ["seeds", "runs"], ["margin", "margin"],
    ["verdict", "verdict"]];

  /** An element with attributes (functions are listeners) and children (text or elements). */
  const el = (name, attributes = {}, ...children) => {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) {
      if (typeof value === "function") made.addEventListener(key, value);
      else if (value === true) made.setAttribute(key, "");
      else if (value !== false && value !== null) made.setAttribute(key, value);
    }
    made.append(...children.filter((child) => child !== null));
    return made;
  };

  const svg = (name, attributes, ...children) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  };

  const css = (verdict) => `fairfl-${verdict.replaceAll(" ", "-")}`;

  function power(value) {
    if (value === null) return "none";
    return value >= 0.8 ? "high" : value >= 0.5 ? "some" : "low";
  }

  function decoded(text) {
    try {
      return decodeURIComponent(text);
    } catch {
      return text;
    }
  }

  /** The pieces of text below an element, apart from each other: cells and lines that touch are no one word. */
  function texts(element) {
    const found = [];
    const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) found.push(walker.currentNode.data);
    return found.join(" ");
  }

  /** The rows of the plain tables, each with what the page knows of it beyond what is shown. */
  function read(root, data) {
    const rows = [...root.querySelectorAll(".ledger-plain tr[id]")];
    if (rows.length !== data.rows.part.length) throw new Error("The tables and what is known of their rows do not fit.");
    return rows.map((row, order) => {
      const claim = { row, order, id: row.id };
      for (const [name, values] of Object.entries(data.rows)) {
        claim[name] = name in data.words ? data.words[name][values[order]] : values[order];
      }
      claim.where = row.querySelector("small").textContent;
      claim.note = row.lastElementChild;
      claim.strength = power(claim.power);
      const apart = claim.printed !== null && claim.measured !== null ? Math.abs(claim.measured - claim.printed) : null;
      claim.apart = apart !== null && claim.margin > 0 ? apart / claim.margin : null;
      claim.seeds = claim.seeds || null;
      claim.words = words(claim.id);
      claim.text = words(`${texts(row)} ${data.papers[claim.paper]} ${claim.kind} ${claim.source}`);
      return claim;
    });
  }

  async function copy(text, button, say) {
    let done = false;
    try {
      await navigator.clipboard.writeText(text);
      done = true;
    } catch {
      const area = el("textarea", { "aria-hidden": "true", class: "ledger-hidden" });
      area.value = text;
      document.body.append(area);
      area.select();
      done = document.execCommand("copy");
      area.remove();
      button.focus();
    }
    say(done ? `Copied ${text}` : `Not copied: mark ${text} and copy it by hand`);
    if (!done) return;
    const before = button.textContent;
    if (before === "copied") return;
    button.textContent = "copied";
    setTimeout(() => { button.textContent = before; }, 1500);
  }

  function run(root, data) {
    const claims = read(root, data);
    const byId = new Map(claims.map((claim) => [claim.id, claim]));
    const rank = Object.fromEntries(Object.keys(data.verdicts).map((verdict, place) => [verdict, place]));
    const status = el("p", { class: "ledger-status", role: "status" });
    const say = (text) => { status.textContent = text; };
    const facets = {
      paper: { title: "Paper", of: (c) => [c.paper], options: Object.entries(data.papers) },
      part: { title: "Table or part", of: (c) => [c.part], options: Object.entries(data.parts) },
      kind: { title: "Kind", of: (c) => [c.kind], options: data.kinds.map((kind) => [kind, kind]) },
      verdict: {
        title: "Verdict",
        of: (c) => [c.verdict, ...Object.keys(data.outcomes).filter((words) => words !== c.verdict && data.outcomes[words].includes(c.verdict))],
        options: [
          ...Object.keys(data.outcomes).filter((words) => !(words in data.verdicts)).map((words) => [words, `any of: ${words}`]),
          ...Object.entries(data.verdicts).map(([verdict, sign]) => [verdict, `${sign} ${verdict}`]),
        ],
      },
      whose: { title: "Whose question", of: (c) => [c.whose], options: Object.entries(ASKED) },
      power: { title: "Power", of: (c) => [c.strength], options: Object.entries(POWERS) },
    };
    const names = Object.keys(facets);
    const empty = () => ({ find: "", ...Object.fromEntries(names.map((name) => [name, ""])), sort: "order", down: false, page: 0 });
    let state = empty();
    let found = claims;
    let missing = [];
    let target = null;

    // Which claims are wanted, and how many more each choice would leave.

    function select() {
      const every = terms(state.find);
      missing = every.filter((term) => !claims.some((claim) => matches(term, claim.text))).map((term) => term.written);
      const asked = every.filter((term) => !missing.includes(term.written));
      const none = every.length > 0 && !asked.length;
      const counts = Object.fromEntries(names.map((name) => [name, new Map()]));
      const chosen = [];
      for (const claim of claims) {
        if (none || !asked.every((term) => matches(term, claim.text))) continue;
        claim.points = asked.length ? score(asked, claim.words, claim.text) : 0;
        const failed = names.filter((name) => state[name] && !facets[name].of(claim).includes(state[name]));
        if (!failed.length) chosen.push(claim);
        if (failed.length > 1) continue;
        for (const name of failed.length ? failed : names) {
          for (const value of facets[name].of(claim)) counts[name].set(value, (counts[name].get(value) ?? 0) + 1);
        }
      }
      return [chosen, counts];
    }

    function compare(one, other) {
      const key = state.sort;
      if (key === "order" && one.points !== other.points) return state.down ? one.points - other.points : other.points - one.points;
      const [a, b] = key === "verdict" ? [rank[one.verdict], rank[other.verdict]] : [one[key], other[key]];
      if (a === null || b === null) return (a === null) - (b === null) || one.order - other.order; // what is not there comes last
      const less = typeof a === "string" ? a.localeCompare(b, "en", { numeric: true }) : a - b;
      return (state.down ? -less : less) || one.order - other.order;
    }

    // The tools.

    const search = el("input", {
      type: "search", id: "ledger-find", placeholder: "words in any order: FairFed EOD Adult alpha 0.5", autocomplete: "off", spellcheck: "false",
      input: () => { clearTimeout(search.wait); search.wait = setTimeout(() => change({ find: search.value }), 120); },
    });
    const selects = Object.fromEntries(names.map((name) => {
      const options = facets[name].options.map(([value, text]) => el("option", { value }, text));
      const choice = el("select", { id: `ledger-${name}`, change: () => change({ [name]: choice.value }) }, el("option", { value: "" }, "all"));
      if (name === "part") {
        for (const [paper, title] of Object.entries(data.papers)) {
          choice.append(el("optgroup", { label: title }, ...options.filter((option) => option.value.startsWith(`${paper}.`))));
        }
      } else choice.append(...options);
      return [name, choice];
    }));
    const sorting = el("select", { id: "ledger-sort", change: () => change({ sort: sorting.value, down: false }) },
      ...Object.entries(SORTS).map(([value, text]) => el("option", { value }, text)));
    const direction = el("button", { type: "button", click: () => change({ down: !state.down }) }, "↑");
    const clear = el("button", { type: "button", click: () => { change({ ...empty(), sort: state.sort, down: state.down }); search.focus(); } }, "Clear all");
    const labelled = (text, input, ...more) => el("div", {}, el("label", { for: input.id }, text), el("span", {}, input, ...more));
    const tools = el("div", { class: "ledger-tools", role: "search", "aria-label": "claims of the ledger" },
      el("div", { class: "ledger-search" }, labelled("Search", search)),
      el("div", { class: "ledger-line" }, status, clear));
    const filters = el("details", { class: "ledger-filters" }, el("summary", {}, "Filter and sort"),
      el("div", { class: "ledger-choices" },
        ...names.map((name) => labelled(facets[name].title, selects[name])), labelled("Sort", sorting, direction)));

    // The table, and what opens under a row.

    const heads = Object.fromEntries(COLUMNS.map(([key, title]) => {
      const press = () => {
        if (state.sort !== key) change({ sort: key, down: false });
        else change(state.down ? { sort: "order", down: false } : { down: true });
      };
      return [key, el("th", { scope: "col" }, el("button", { type: "button", click: press }, title))];
    }));
    const body = el("tbody");
    const table = el("table", { class: "ledger-live" }, el("thead", {}, el("tr", {}, ...Object.values(heads))), body);
    const back = el("button", { type: "button", click: () => turn(-1) }, "← Previous");
    const forth = el("button", { type: "button", click: () => turn(1) }, "Next →");
    const place = el("span", {});
    const pager = el("nav", { class: "ledger-pager", "aria-label": "pages of the list" }, back, place, forth);

    function dress(claim) {
      if (claim.button) return;
      const [first] = claim.row.cells;
      const link = first.querySelector("a");
      link.className = "ledger-id";
      link.title = "Link to this row";
      first.querySelector("small").textContent = [data.papers[claim.paper], claim.where, claim.kind,
        ...(claim.whose === "ours" ? [ASKED.ours] : [])].join(" · ");
      const copier = el("button", { type: "button", "aria-label": `Copy the id ${claim.id}`, click: () => copy(claim.id, copier, say) }, "copy");
      claim.button = el("button", { type: "button", "aria-expanded": "false", "aria-label": `Details of ${claim.id}`, click: () => { toggle(claim); } }, "details");
      first.append(el("span", { class: "ledger-buttons" }, copier, claim.button));
    }

    function toggle(claim, open = !claim.open) {
      claim.open = open;
      claim.button.setAttribute("aria-expanded", String(open));
      if (open) {
        claim.more ??= el("tr", { class: "ledger-more" }, el("td", { colspan: String(COLUMNS.length) }, details(claim)));
        claim.row.after(claim.more);
      } else claim.more?.remove();
    }

    function details(claim) {
      const list = el("dl");
      const add = (term, ...content) => list.append(el("dt", {}, term), el("dd", {}, ...content));
      if (claim.note.hasChildNodes()) add("Note", ...claim.note.cloneNode(true).childNodes);
      if (claim.href) {
        const text = claim.anchor ? `${claim.chapter}, where it is shown` : claim.chapter;
        add("Chapter", el("a", { href: claim.href + (claim.anchor && `#${encodeURIComponent(claim.anchor)}`) }, text));
      }
      const again = /^(results\/|entries)/.test(claim.source);
      const command = `fairfl claims ${claim.id}${again ? " --rerun" : ""}`;
      const copier = el("button", { type: "button", "aria-label": `Copy the command ${command}`, click: () => copy(command, copier, say) }, "copy");
      add(again ? "Measure it again" : "Print it: there is nothing to run again", el("code", {}, command), " ", copier);
      if (claim.source) add("Source", claim.source);
      if (claim.power !== null) {
        const right = claim.against === null ? "the claim was right, by one margin" : "the paper was right";
        const wrong = claim.against === null ? "" : `; ${claim.against.toFixed(2)}: to say "differs" if it was two margins off`;
        add("Power", `${claim.power.toFixed(2)}: how likely these runs were to show it if ${right}${wrong}`);
      }
      if (claim.stand_in !== null) {
        add(claim.kind === "effect" ? "Would the printed effect of another row have passed?" : "Would the baseline's printed number have passed?",
          claim.stand_in ? "yes, so this number alone says little about the method" : "no");
      }
      if (claim.validation) add("With settings chosen on validation data", claim.validation);
      add("Rule", ...rule(claim.rule));
      return list;
    }

    /** A rule's name and text, in which words between asterisks are verdicts. */
    function rule(name) {
      const text = (data.rules[name] ?? "").split("*").map((words, place) => (place % 2 ? el("em", {}, words) : words));
      const link = data.judging ? el("a", { href: data.judging }, "How the ledger judges") : null;
      return [el("b", {}, name), ". ", ...text, ...(link ? [" ", link] : [])];
    }

    // The picture: printed against ours.

    const picture = el("div", { class: "ledger-panels" });
    const drawing = el("details", { class: "ledger-picture", toggle: () => draw() }, el("summary", {}, "Picture"), picture);

    function draw() {
      if (!drawing.open) return;
      const kinds = DRAWN.includes(state.kind) ? [state.kind] : DRAWN.slice(0, 2);
      const dots = (kind) => found.filter((c) => c.kind === kind && c.printed !== null && c.measured !== null);
      const panels = kinds.map((kind) => [kind, dots(kind)]).filter(([, shown]) => shown.length);
      picture.replaceChildren(...panels.map(([kind, shown]) => panel(kind, shown)));
      picture.append(el("p", {}, panels.length
        ? "Each mark is a row of the list, with the interval of ours; on the line, ours is what is printed. "
          + "A dot agrees, a cross differs, a ring is neither. Click a mark to go to its row."
        : "None of these rows has both a printed number and one of ours to draw."));
    }

    function panel(kind, shown) {
      const [side, left, bottom] = [300, 44, 36];
      const values = shown.flatMap((c) => [c.printed, c.measured]);
      const bent = Math.max(...values.map(Math.abs)) > 2; // large and small numbers side by side
      const scale = bent ? (v) => Math.sign(v) * Math.log10(1 + Math.abs(v) / 0.1) : (v) => v;
      let [low, high] = [Math.min(...values), Math.max(...values)].map(scale);
      const room = (high - low || Math.abs(high) || 1) * 0.06;
      [low, high] = [low - room, high + room];
      const across = (v) => Math.min(Math.max((scale(v) - low) / (high - low), 0), 1) * side;
      const [x, y] = [(v) => +(left + across(v)).toFixed(1), (v) => +(side - across(v)).toFixed(1)];
      const inside = (v) => scale(v) >= low && scale(v) <= high;
      const ticks = (bent ? [-1000, -100, -10, -1, 0, 1, 10, 100, 1000, 10000] : even(low, high)).filter(inside);
      const made = svg("svg", { viewBox: `-8 -8 ${left + side + 28} ${side + bottom + 8}`, role: "img",
        "aria-label": `${shown.length} ${kind}s, printed against ours; the list has the same numbers` });
      for (const tick of ticks) {
        const text = String(+tick.toPrecision(6)).replace("-", "−");
        made.append(
          svg("path", { class: "grid", d: `M${x(tick)} 0V${side}M${left} ${y(tick)}h${side}` }),
          svg("text", { x: x(tick), y: side + 14, "text-anchor": "middle" }, text),
          svg("text", { x: left - 5, y: y(tick) + 4, "text-anchor": "end" }, text));
      }
      made.append(
        svg("path", { class: "frame", d: `M${left} 0h${side}v${side}h-${side}Z` }),
        svg("path", { class: "same", d: `M${left} ${side}L${left + side} 0` }),
        svg("text", { x: left + side / 2, y: side + 31, "text-anchor": "middle" }, "printed"),
        svg("text", { transform: `translate(4 ${side / 2}) rotate(-90)`, "text-anchor": "middle" }, "ours"));
      const marks = svg("g", {});
      for (const verdict of Object.keys(data.verdicts)) {
        const these = shown.filter((c) => c.verdict === verdict);
        if (!these.length) continue;
        const bars = these.filter((c) => c.low !== null).map((c) => `M${x(c.printed)} ${y(c.low)}V${y(c.high)}`).join("");
        made.append(svg("path", { class: `bar ${css(verdict)}`, d: bars }));
        for (const c of these) {
          const at = `translate(${x(c.printed)} ${y(c.measured)})`;
          const dot = svg("a", { href: `#${encodeURIComponent(c.id)}`, tabindex: "-1", class: `dot ${css(verdict)}`, transform: at },
            svg("circle", { r: 7, class: "reach" }), svg("path", { d: shape(verdict) }));
          dot.append(svg("title", {}, `${c.id}: printed ${c.row.cells[1].textContent}, ours ${c.row.cells[2].firstChild.textContent}, ${verdict}`));
          marks.append(dot);
        }
      }
      made.append(marks);
      return el("figure", {}, el("figcaption", {}, `${kind}s: ${shown.length}${bent ? " (axes logarithmic beyond ±0.1)" : ""}`), made);
    }

    function shape(verdict) {
      if (["differs", "reversed", "does not hold"].includes(verdict)) return "M-3-3L3 3M-3 3L3-3";
      return "M-3 0a3 3 0 1 0 6 0a3 3 0 1 0-6 0";
    }

    function even(low, high) {
      const raw = (high - low) / 5;
      const ten = 10 ** Math.floor(Math.log10(raw));
      const step = [1, 2, 5, 10].map((n) => n * ten).find((n) => n >= raw);
      return Array.from({ length: 12 }, (_, n) => (Math.ceil(low / step) + n) * step);
    }

    // From a state to the page, and from an address to a state.

    function show() {
      const [chosen, counts] = select();
      found = chosen.sort(compare);
      const last = Math.max(Math.ceil(found.length / SIZE) - 1, 0);
      state.page = Math.min(state.page, last);
      const here = found.slice(state.page * SIZE, (state.page + 1) * SIZE);
      here.forEach(dress);
      body.replaceChildren(...here.flatMap((c) => (c.open ? [c.row, c.more] : [c.row])));
      if (!here.length) body.append(el("tr", {}, el("td", { colspan: String(COLUMNS.length) }, "No claim has all of this. Clear a filter, or search for fewer words.")));
      for (const name of names) {
        for (const option of selects[name].querySelectorAll("option[value]:not([value=''])")) {
          const n = counts[name].get(option.value) ?? 0;
          option.textContent = `${option.dataset.text ??= option.textContent} (${n})`;
          option.hidden = option.disabled = !n && option.value !== state[name];
        }
        selects[name].value = state[name];
      }
      if (search.value !== state.find && document.activeElement !== search) search.value = state.find;
      sorting.value = state.sort;
      direction.textContent = state.down ? "↓" : "↑";
      direction.setAttribute("aria-label", state.down ? "Descending: sort ascending" : "Ascending: sort descending");
      for (const [key, head] of Object.entries(heads)) {
        head.setAttribute("aria-sort", state.sort !== key ? "none" : state.down ? "descending" : "ascending");
      }
      pager.hidden = !last;
      back.disabled = !state.page;
      forth.disabled = state.page === last;
      const [from, to] = [state.page * SIZE + 1, state.page * SIZE + here.length];
      place.textContent = here.length ? `${from} to ${to} of ${found.length.toLocaleString("en")}` : "";
      clear.hidden = !state.find && names.every((name) => !state[name]);
      const unknown = missing.length ? `. No row has ${missing.map((word) => `“${word}”`).join(" or ")}: try another spelling, or a part of the word` : "";
      say((found.length === claims.length ? `${claims.length.toLocaleString("en")} claims`
        : `${found.length.toLocaleString("en")} of ${claims.length.toLocaleString("en")} claims`) + unknown);
      draw();
    }

    function change(some) {
      state = { ...state, ...some, page: 0 };
      if (some.paper && state.part && !state.part.startsWith(`${some.paper}.`)) state.part = "";
      if ("find" in some && !some.find) search.value = "";
      mark(null);
      show();
      address("");
    }

    function turn(by) {
      state.page += by;
      show();
      tools.scrollIntoView({ block: "start" });
    }

    /** The address of what is shown now, to be kept or sent. */
    function address(hash) {
      const wanted = new URLSearchParams();
      for (const name of ["find", ...names]) if (state[name]) wanted.set(name, state[name]);
      if (state.sort !== "order") wanted.set("sort", (state.down ? "-" : "") + state.sort);
      const query = wanted.toString();
      try {
        history.replaceState(null, "", `${location.pathname}${query && `?${query}`}${hash}`);
      } catch { /* some browsers do not let a file's address be changed: then it stays */ }
    }

    function fromQuery(query) {
      const given = new URLSearchParams(query);
      const wanted = empty();
      wanted.find = given.get("find") ?? "";
      for (const name of names) {
        const value = given.get(name) ?? "";
        if (facets[name].options.some(([known]) => known === value)) wanted[name] = value;
      }
      const sort = given.get("sort") ?? "order";
      if (sort.replace(/^-/, "") in SORTS) [wanted.sort, wanted.down] = [sort.replace(/^-/, ""), sort.startsWith("-")];
      return wanted;
    }

    function mark(claim) {
      target?.row.classList.remove("ledger-target");
      target = claim;
      target?.row.classList.add("ledger-target");
    }

    /** Show the row that an address names, whatever the filters say and whichever page it is on. */
    function reveal() {
      const name = decoded(location.hash.slice(1));
      if (name.startsWith("part-") && name.slice(5) in data.parts) {
        change({ ...empty(), part: name.slice(5) });
        tools.scrollIntoView({ block: "start" });
        return;
      }
      const claim = byId.get(name);
      if (!claim) {
        if (name.split(".")[0] in data.papers) {
          say(`There is no claim ${name}`);
          tools.scrollIntoView({ block: "start" });
        }
        return;
      }
      let cleared = "";
      if (!found.includes(claim)) {
        state = { ...empty(), sort: state.sort, down: state.down };
        search.value = "";
        show();
        cleared = "The filters were cleared. ";
      }
      state.page = Math.floor(found.indexOf(claim) / SIZE);
      show();
      toggle(claim, true);
      mark(claim);
      say(`${cleared}${claim.id} is shown`);
      address(location.hash);
      claim.row.tabIndex = -1;
      claim.row.focus({ preventScroll: true });
      claim.row.scrollIntoView({ block: "start" });
    }

    const board = root.querySelector(".ledger-summary");
    board.open = false;

    /** The numbers of the scoreboard lead to what they count. */
    for (const cell of root.querySelectorAll(".ledger-board td[data-verdict]")) {
      const wanted = { ...cell.parentElement.dataset, ...(cell.dataset.verdict && { verdict: cell.dataset.verdict }) };
      const follow = (event) => {
        event.preventDefault();
        change({ ...empty(), ...wanted });
        board.open = false;
        tools.scrollIntoView({ block: "start" });
        search.focus({ preventScroll: true });
      };
      const about = [data.papers[wanted.paper], wanted.kind, wanted.verdict ?? "all"].join(", ");
      cell.replaceChildren(el("a", { href: `?${new URLSearchParams(wanted)}`, "aria-label": `${cell.textContent}: ${about}`, click: follow }, cell.textContent));
    }

    root.querySelector(".ledger-plain").replaceWith(tools, el("div", { class: "ledger-folds" }, filters, drawing, board), table, pager);
    state = fromQuery(location.search);
    search.value = state.find;
    show();
    reveal();
    window.addEventListener("hashchange", reveal);
    root.addEventListener("click", (event) => {
      const link = event.target.closest("a[href^='#']");
      if (link && link.getAttribute("href") === location.hash) reveal(); // the address does not change, so nobody would tell
    });
  }

  const root = document.getElementById("ledger");
  if (!root) return;
  try {
    run(root, JSON.parse(document.getElementById("ledger-data").textContent));
  } catch (error) {
    document.documentElement.classList.remove("ledger-js");
    throw error;
  }
})();
