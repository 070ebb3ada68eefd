// The search page: every section, theorem and claim that has all the words, best first. SECTIONS is made with the book.
document.addEventListener("DOMContentLoaded", () => {
  const MOST = 60;

  // A word is found at the beginning of a word, and without its plural s.
  const pattern = (word) => {
    const stem = word.length > 4 ? word.replace(/s$/, "") : word;
    return new RegExp("(?<![\\p{L}\\p{N}])" + stem.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), "giu");
  };

  function score([, page, title, text], query, patterns) {
    const name = title.toLowerCase();
    let points = name === query ? 100 : name.startsWith(query) ? 50 : name.includes(query) ? 20 : 0;
    for (const one of patterns) {
      const [inTitle, inPage] = [title, page].map((words) => words.search(one) >= 0);
      const inText = (text.match(one) ?? []).length;
      if (!inTitle && !inPage && !inText) return 0;
      points += 8 * inTitle + 3 * inPage + Math.min(inText, 5);
    }
    return points;
  }

  const element = (name, content, more = {}) => {
    const made = Object.assign(document.createElement(name), more);
    made.append(...[content].flat());
    return made;
  };

  // The words around the first hit, with every hit marked.
  function excerpt(text, patterns) {
    const hits = patterns.map((one) => text.search(one)).filter((at) => at >= 0);
    const from = Math.max(0, Math.min(...hits, text.length) - 60);
    const start = hits.length ? text.indexOf(" ", from - 1) + 1 : 0;
    const part = (start > 0 ? "… " : "") + text.slice(start, start + 220) + (text.length > start + 220 ? " …" : "");
    const any = new RegExp(patterns.map((one) => one.source + "[\\p{L}\\p{N}]*").join("|"), "giu");
    const pieces = [];
    let last = 0;
    for (const hit of part.matchAll(any)) {
      pieces.push(part.slice(last, hit.index), element("mark", hit[0]));
      last = hit.index + hit[0].length;
    }
    return element("p", [...pieces, part.slice(last)], { className: "context" });
  }

  Search.performSearch = (asked) => {
    const query = asked.trim().toLowerCase();
    const patterns = query.split(/\s+/).filter(Boolean).map(pattern);
    const found = SECTIONS.map((row) => [score(row, query, patterns), row])
      .filter(([points]) => points > 0)
      .sort(([one], [other]) => other - one);
    const count = found.length > MOST ? `The best ${MOST} of ${found.length} places` : found.length === 1 ? "1 place" : `${found.length} places`;
    const list = found.slice(0, MOST).map(([, [address, page, title, text]]) =>
      element("li", [
        element("a", title, { href: address }),
        ...(title === page ? [] : [element("span", ` in ${page}`)]),
        excerpt(text, patterns),
      ]),
    );
    const words = found.length ? `${count} with “${asked}”.` : `Nothing has “${asked}”: try fewer words.`;
    document
      .getElementById("search-results")
      .replaceChildren(element("h2", "Search results"), element("p", words, { role: "status" }), element("ul", list, { className: "search" }));
  };
});
