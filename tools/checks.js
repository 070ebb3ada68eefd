// What a test looks at in an open page. Every check answers with a list of sentences, empty when nothing is wrong.
globalThis.checks = (() => {
  const style = (element) => getComputedStyle(element);
  const unseen = "script, style, noscript, template, title, dialog:not([open]), mjx-assistive-mml, .visually-hidden, .sr-only, .skip-link";

  // An element as a person would find it: its tag, classes and first words.
  const name = (element) => {
    const words = (element.innerText ?? element.getAttribute("alt") ?? "").trim().replace(/\s+/g, " ").slice(0, 50);
    const classes = [...element.classList].slice(0, 2).map((one) => "." + one).join("");
    return `<${element.localName}${classes}>` + (words ? ` "${words}"` : "");
  };

  // Words that are only for screen readers are clipped away.
  const visible = (element) =>
    style(element).clipPath !== "inset(50%)" && !element.closest(unseen) && element.checkVisibility({ opacityProperty: true, visibilityProperty: true });

  // Texts, pictures and formulas, each with the element it belongs to and the rectangle it takes.
  function* contents() {
    const words = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    const range = document.createRange();
    const seen = new Map();
    while (words.nextNode()) {
      const node = words.currentNode;
      const owner = node.parentElement;
      if (!node.data.trim()) continue;
      if (!seen.has(owner)) seen.set(owner, visible(owner) && !owner.closest("mjx-container"));
      if (!seen.get(owner)) continue;
      range.selectNodeContents(node);
      yield [owner, range.getBoundingClientRect(), true];
    }
    for (const element of document.body.querySelectorAll("img, svg, canvas, video, iframe, mjx-container > mjx-math")) {
      if (visible(element)) yield [element, element.getBoundingClientRect(), false];
    }
  }

  const scrolls = (value) => value === "auto" || value === "scroll";
  const hides = (value) => value === "hidden" || value === "clip";

  // A box that hides a part of what is in it and has no scrollbar, or a page that must be scrolled sideways.
  function overflow() {
    const said = new Set();
    const room = document.documentElement.clientWidth;
    if (document.documentElement.scrollWidth > room) said.add("the page scrolls sideways");
    for (const [owner, whole] of contents()) {
      if (whole.width < 2 || whole.height < 2) continue;
      let box = whole;
      for (let element = owner; element && element !== document.body; element = element.parentElement) {
        const { overflowX, overflowY, position } = style(element);
        if (overflowX === "visible" && overflowY === "visible" && element.localName !== "td" && element.localName !== "th") continue;
        const edge = element.getBoundingClientRect();
        const wide = box.right > edge.right + 1.5 || box.left < edge.left - 1.5;
        const tall = box.bottom > edge.bottom + 4 || box.top < edge.top - 4;
        if (overflowX === "visible" && wide) said.add(`${name(owner)} leaves its cell`);
        if ((hides(overflowX) && wide) || (hides(overflowY) && tall)) said.add(`${name(owner)} is cut by ${name(element)}`);
        if (scrolls(overflowX) || scrolls(overflowY)) box = edge;
        if (position === "fixed") break;
      }
      const column = owner.closest("article")?.getBoundingClientRect();
      if (box.right > room + 1.5) said.add(`${name(owner)} leaves the screen`);
      else if (column && box.right > column.right + 1.5) said.add(`${name(owner)} leaves the column of text`);
    }
    return [...said];
  }

  // Formulas that run behind their numbers.
  function equations() {
    const said = [];
    for (const number of document.querySelectorAll(".eqno")) {
      const formula = number.parentElement.querySelector("mjx-math");
      if (!formula || !visible(formula)) continue;
      const [a, b] = [number.getBoundingClientRect(), formula.getBoundingClientRect()];
      const clip = formula.parentElement.getBoundingClientRect();
      const right = scrolls(style(formula.parentElement).overflowX) ? Math.min(b.right, clip.right) : b.right;
      if (right > a.left + 1 && b.left < a.right - 1 && b.bottom > a.top + 1 && b.top < a.bottom - 1) {
        said.push(`equation ${number.innerText.trim()} runs behind its number`);
      }
    }
    return said;
  }

  // A table that scrolls keeps its first column in view, and room beside it.
  function tables() {
    const said = [];
    for (const table of document.querySelectorAll("article table")) {
      if (!visible(table)) continue;
      let box = table;
      while (box && !scrolls(style(box).overflowX)) box = box.parentElement;
      if (!box || box.scrollWidth <= box.clientWidth + 1 || !box.closest("article")) continue;
      if (table.matches(".ledger-board")) said.push(`the scoreboard is wider than its place by ${box.scrollWidth - box.clientWidth} px`);
      const first = table.querySelector("tbody tr > :is(th:has(+ td), td:first-child)");
      if (!first) continue;
      if (style(first).position !== "sticky") said.push(`the first column of ${name(table)} scrolls away`);
      else if (first.offsetWidth > 0.62 * box.clientWidth) said.push(`the first column of ${name(table)} leaves no room for the others`);
    }
    return said;
  }

  const brush = Object.assign(document.createElement("canvas"), { width: 1, height: 1 }).getContext("2d", { willReadFrequently: true });
  const colours = new Map();
  function colour(text) {
    if (!colours.has(text)) {
      brush.clearRect(0, 0, 1, 1);
      brush.fillStyle = text;
      brush.fillRect(0, 0, 1, 1);
      const [r, g, b, a] = brush.getImageData(0, 0, 1, 1).data;
      colours.set(text, [r, g, b, a / 255]);
    }
    return colours.get(text);
  }
  const over = ([r, g, b, a], ground) => [r, g, b].map((one, i) => one * a + ground[i] * (1 - a));
  const light = (rgb) => {
    const [r, g, b] = rgb.map((one) => (one /= 255) <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  function ground(element, known) {
    if (!element) return [255, 255, 255];
    if (!known.has(element)) known.set(element, over(colour(style(element).backgroundColor), ground(element.parentElement, known)));
    return known.get(element);
  }

  function opacity(element, known) {
    if (!element) return 1;
    if (!known.has(element)) known.set(element, style(element).opacity * opacity(element.parentElement, known));
    return known.get(element);
  }

  // WCAG 2.2, level AA: 4.5 to 1, and 3 to 1 for large letters.
  function contrast() {
    const said = new Map();
    const [known, faded] = [new Map(), new Map()];
    for (const [owner, , words] of contents()) {
      if (!words || owner.closest(":disabled, [aria-disabled=true]")) continue;
      const { color, fontSize, fontWeight } = style(owner);
      const behind = ground(owner, known);
      const shown = opacity(owner, faded);
      if (shown < 0.05) continue;
      const [r, g, b, a] = colour(color);
      const [x, y] = [light(over([r, g, b, a * shown], behind)), light(behind)].sort((one, other) => other - one);
      const ratio = (x + 0.05) / (y + 0.05);
      const size = parseFloat(fontSize);
      const enough = size >= 24 || (size >= 18.66 && fontWeight >= 700) ? 3 : 4.5;
      const kind = `${owner.localName}.${owner.className} ${color}`;
      if (ratio < enough - 0.01 && !said.has(kind)) said.set(kind, `contrast ${ratio.toFixed(2)} of ${name(owner)}, ${enough} is needed`);
    }
    return [...said.values()];
  }

  const frame = () => new Promise((resume) => requestAnimationFrame(resume));

  const regions = {
    search: "input[type=search], .search-button__button",
    navigation: "nav.bd-links, nav[aria-label=Main]",
    main: "main",
  };

  return {
    async ready() {
      await globalThis.MathJax?.startup?.promise;
      await document.fonts.ready;
      // Nothing moves, and no tooltip opens: a theme opens one half a second after the focus came, wherever the page is by then.
      const still = document.head.appendChild(document.createElement("style"));
      still.textContent = "*, ::before, ::after { animation: none !important; transition: none !important; } .tooltip { display: none !important; }";
      document.querySelectorAll("img[loading=lazy]").forEach((image) => (image.loading = "eager"));
      await Promise.all([...document.images].map((image) => image.decode().catch(() => {})));
    },

    // The page has this width, its scripts have heard of it, and what it shows now has its fonts.
    async settled(width) {
      while (innerWidth !== width) await frame();
      for (let turn = 0; turn < 2; turn++) await frame();
      await document.fonts.ready;
    },

    theme(theme) {
      Object.assign(document.documentElement.dataset, { theme, mode: theme });
    },

    // What depends on neither width nor theme.
    once: () => [
      ...[...document.images].flatMap((image) => [
        ...(image.alt.trim() || image.getAttribute("role") === "presentation" ? [] : [`a picture has no alternative text: ${image.getAttribute("src")?.slice(0, 80)}`]),
        ...(image.naturalWidth ? [] : [`a picture is not there: ${image.getAttribute("src")?.slice(0, 80)}`]),
      ]),
      ...[...document.querySelectorAll("article p")].filter((p) => /\|[-–—]+\|/.test(p.textContent)).map((p) => `a table is left as text: ${p.textContent.slice(0, 80)}`),
    ],

    // What depends on the width, and what on the theme.
    shape: () => [...overflow(), ...equations(), ...tables()],
    contrast,

    regions: () => Object.keys(regions).filter((one) => one === "main" || document.querySelector(regions[one])),

    // Where the focus is, and whether one sees it.
    focus() {
      const element = document.activeElement;
      if (!element || element === document.body) return null;
      const { outlineStyle, outlineWidth, boxShadow } = style(element);
      return {
        element: name(element),
        region: Object.keys(regions).find((one) => element.closest(regions[one])) ?? null,
        visible: (outlineStyle !== "none" && parseFloat(outlineWidth) > 0) || boxShadow !== "none",
      };
    },
  };
})();
0; // so that nothing has to be sent back
