// The search page: pages, sections and definitions that have all the words, best first, and behind them lines of the ledger.
// SECTIONS, LEDGER and LEDGER_PAGE are made with the book; words.js says when two spellings are the same word.
document.addEventListener("DOMContentLoaded", () => {
  const MOST = 40, LINES = 5;
  const FORMULA = /(\\\(.*?\\\))/s;
  const NAMED = { page: 60, definition: 60, theorem: 20, section: 0 }; // points more when its title has all the words
  const { words, terms, matches, score } = fairflWords;
  const places = SECTIONS.map(([address, page, title, text, kind]) => ({
    address, page, title, text, kind, ofTitle: words(title), ofPage: words(page), ofText: words(text),
  }));
  const lines = LEDGER.map(([id, says]) => ({ id, says, ofId: words(id), ofText: words(says) }));

  const element = (name, content, more = {}) => {
    const made = Object.assign(document.createElement(name), more);
    made.append(...[content].flat());
    return made;
  };

  function points(one, query, asked) {
    const name = one.title.toLowerCase();
    let sum = name === query ? 100 : name.startsWith(query) ? 50 : name.includes(query) ? 20 : 0;
    let named = true;
    for (const term of asked) {
      const [inTitle, inPage, inText] = [one.ofTitle, one.ofPage, one.ofText].map((among) => matches(term, among));
      if (!inTitle && !inPage && !inText) return 0;
      named &&= inTitle > 0;
      const often = inText ? one.ofText.filter((word) => matches(term, [word])).length || 1 : 0;
      sum += 4 * inTitle + 3 * (inPage > 0) + Math.min(often, 5);
    }
    return sum + (named ? NAMED[one.kind] : 0);
  }

  const hit = (word, asked) => words(word).some((one) => asked.some((term) => term.ways.some((way) => way.some((part) =>
    one === part || (part.length > 1 && one.startsWith(part.length > 4 ? part.replace(/s$/, "") : part))))));

  // The words around the first hit, with every hit marked; a formula stays whole, and MathJax sets it.
  function excerpt(text, asked) {
    const atoms = text.split(FORMULA).flatMap((piece) => (FORMULA.test(piece) ? [piece] : piece.split(/\s+/).filter(Boolean)));
    const first = Math.max(atoms.findIndex((atom) => hit(atom, asked)) - 10, 0);
    const shown = [];
    let length = 0;
    for (const atom of atoms.slice(first)) {
      if (length > 220) break;
      length += Math.min(atom.length, 20) + 1;
      shown.push(atom);
    }
    const pieces = shown.flatMap((atom) => [" ", FORMULA.test(atom) ? element("span", atom, { className: "math" })
      : hit(atom, asked) ? element("mark", atom) : atom]);
    const more = first + shown.length < atoms.length;
    return element("p", [first ? "…" : "", ...pieces, more ? " …" : ""], { className: "context" });
  }

  const vocabulary = () => new Set([...places, ...lines].flatMap((one) => [...(one.ofTitle ?? []), ...one.ofText]));

  /** How many letters differ between two words. */
  function distance(one, other) {
    let row = Array.from({ length: other.length + 1 }, (_, place) => place);
    [...one].forEach((letter, i) => {
      const next = [i + 1];
      [...other].forEach((same, j) => next.push(Math.min(row[j + 1] + 1, next[j] + 1, row[j] + (letter !== same))));
      row = next;
    });
    return row.at(-1);
  }

  function nearest(word) {
    const near = [...vocabulary()].filter((one) => one.length > 3 && Math.abs(one.length - word.length) < 3)
      .map((one) => [distance(word, one), one]).filter(([apart]) => apart <= Math.min(2, word.length / 3));
    return near.sort()[0]?.[1];
  }

  // What to try when nothing has the words: another spelling of a word that is nowhere, or fewer words.
  function advice(asked, query) {
    const unknown = asked.filter((term) => ![...places, ...lines].some((one) => [one.ofTitle, one.ofPage, one.ofId, one.ofText]
      .some((among) => among && matches(term, among)))).map((term) => term.written);
    const said = [`Nothing has “${query}”.`];
    for (const word of unknown) {
      const near = nearest(word);
      said.push(` No page has the word “${word}”`);
      said.push(...(near ? ["; did you mean ", element("a", near, { href: `?q=${encodeURIComponent(query.replace(word, near))}` }), "?"] : ["."]));
    }
    said.push(unknown.length ? " Try another spelling, or the beginning of the word." : " Each word is in the book, but no place has them all: try fewer words.");
    return said;
  }

  const best = (found) => found.filter(([sum]) => sum > 0).sort(([one], [other]) => other - one).map(([, one]) => one);
  const number = (count, one, many) => (count === 1 ? `1 ${one}` : `${count.toLocaleString("en")} ${many}`);

  Search.performSearch = (given) => {
    const query = given.trim();
    const asked = terms(query);
    const found = asked.length ? best(places.map((one) => [points(one, query.toLowerCase(), asked), one])) : [];
    const ofLedger = lines.filter((one) => asked.length && asked.every((term) => matches(term, [...one.ofId, ...one.ofText])));
    const rows = best(ofLedger.map((one) => [1000 + score(asked, one.ofId, one.ofText), one]));
    const listed = found.slice(0, MOST).map((one) =>
      element("li", [
        element("a", one.title, { href: one.address }),
        ...(one.title === one.page ? [] : [element("span", ` in ${one.page}`)]),
        excerpt(one.text, asked),
      ]),
    );
    const count = found.length > MOST ? `The best ${MOST} of ${found.length} places` : number(found.length, "place", "places");
    const status = found.length || rows.length ? [`${count} in the book and ${number(rows.length, "line", "lines")} of the ledger with “${query}”.`]
      : advice(asked, query);
    const results = document.getElementById("search-results");
    results.replaceChildren(element("h2", "Search results"), element("p", status, { role: "status" }), element("ul", listed, { className: "search" }));
    if (rows.length) {
      const shown = rows.slice(0, LINES).map((one) =>
        element("li", [element("a", one.id, { href: `${LEDGER_PAGE}#${encodeURIComponent(one.id)}` }), excerpt(one.says, asked)]));
      const all = element("a", `All ${number(rows.length, "line", "lines")} in the ledger`, { href: `${LEDGER_PAGE}?find=${encodeURIComponent(query)}` });
      results.append(element("h2", "In the ledger"), element("ul", shown, { className: "search" }), ...(rows.length > LINES ? [element("p", all)] : []));
    }
    globalThis.MathJax?.typesetPromise?.([results]);
  };
});
