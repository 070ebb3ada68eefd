// Words as people type them: small letters, Greek letters by their names, 0.50 as 0.5. ledger/find.py does the same for the terminal.
globalThis.fairflWords = (() => {
  "use strict";
  const NAMES = ("alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho sigma sigma tau upsilon phi "
    + "chi psi omega").split(" ");
  const GREEK = new Map([..."αβγδεζηθικλμνξοπρσςτυφχψω"].map((letter, place) => [letter, NAMES[place]]));
  const named = [...new Set(NAMES)].sort((one, other) => other.length - one.length).join("|");
  const NAMED = new RegExp(`(?<![a-z0-9])(${named})_?(?=\\d)`, "g");
  const PIECE = /[a-z][a-z0-9]*(?:[-_][a-z0-9]+)*|\d+(?:,\d{3})*(?:\.\d+)?|(?<![a-z0-9])\.\d+/g;

  const isWord = (text) => /^[a-z]/.test(text);

  /** A text in small letters, cut into words and numbers. */
  function pieces(text) {
    const small = text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();
    const spelt = [...small].map((letter) => (GREEK.has(letter) ? ` ${GREEK.get(letter)} ` : letter)).join("");
    return spelt.replace(NAMED, "$1 ").match(PIECE) ?? [];
  }

  function ways(piece) {
    if (!isWord(piece)) {
      const [whole, decimals = ""] = piece.replaceAll(",", "").split(".");
      const rest = decimals.replace(/0+$/, "");
      return [[String(Number(whole)) + (rest && `.${rest}`)]];
    }
    const parts = piece.split(/[-_]/);
    return parts.length === 1 ? [[piece]] : [[parts.join("")], parts];
  }

  /** What of a text can be found: its words and numbers; one with hyphens also in one word, and by its parts. */
  const words = (text) => pieces(text).flatMap((piece) => ways(piece).flat());

  /** The words of a query, each with the ways in which it may stand in a text. */
  const terms = (query) => pieces(query).map((piece) => ({ written: piece, ways: ways(piece) }));

  /** 2 where the word is among these, 1 where it begins one of them, 0 where it does neither. */
  function strength(word, among) {
    const stem = /^[a-z]{4,}s$/.test(word) ? word.slice(0, -1) : word;
    if (among.includes(word) || among.includes(stem)) return 2;
    const openEnded = isWord(word) || (word.split(".")[1] ?? "").length > 1;
    return Number(openEnded && among.some((one) => one.startsWith(stem)));
  }

  /** How well a text of these words has a word of the query; 0 where it does not have it. */
  const matches = (term, among) => Math.max(...term.ways.map((way) => Math.min(...way.map((word) => strength(word, among)))));

  /** Points of a line of the ledger, as ledger/find.py gives them. */
  function score(asked, id, rest) {
    const count = (word) => id.filter((one) => one === word).length;
    let points = 0;
    for (const term of asked) {
      const twice = term.ways.some((way) => way.every((word) => count(word) > 1));
      points += 10 * matches(term, id) + 3 * matches(term, rest) + 5 * twice;
    }
    const wanted = asked.flatMap((term) => term.ways.flat());
    return points - id.filter((one) => !wanted.some((word) => strength(word, [one]))).length;
  }

  return { pieces, words, terms, matches, score };
})();
