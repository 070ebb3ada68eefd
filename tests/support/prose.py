"""Numbers in sentences: what each states, and what on its page holds it.

A sentence of the book that states a number can go stale when the result beside it changes. So every number in prose
must be held by something that is compared with a run: the output of a cell of its section, an assert, a constant of the
code or a parameter, or the card of the paper that is quoted. `unheld` gives the numbers that nothing holds, `unlinked`
the words that name another page without a link to it. CONTRIBUTING.md says the rules in words.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairfl_book import cards

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

HIDDEN = "\x00"
"""Stands in a sentence for each character that is no prose: maths, code, citations, references."""

_UNITS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve", "thirteen"]
_UNITS += [f"{unit}teen" for unit in ("four", "fif", "six", "seven", "eigh", "nine")]
_TENS = [f"{ten}ty" for ten in ("twen", "thir", "for", "fif", "six", "seven", "eigh", "nine")]
WORDS = {word: value for value, word in enumerate(_UNITS)} | {word: 10 * value for value, word in enumerate(_TENS, start=2)}
WORDS |= {f"{ten}-{unit}": WORDS[ten] + WORDS[unit] for ten in _TENS for unit in _UNITS[1:10]}
WORDS |= {"dozen": 12, "hundred": 100, "thousand": 1000, "million": 1_000_000}
PARTS = {"half": 2, "third": 3, "quarter": 4, "fifth": 5, "sixth": 6, "seventh": 7, "eighth": 8, "tenth": 10}
TIMES = {"twice": 2, "thrice": 3}


Reading = tuple[float, float]
"""A value, and how far from it a result may lie that is still called so: half a unit of the last digit, or nothing."""


@dataclass(frozen=True)
class Number:
    """A number as it stands in a sentence.

    `readings` are the values it may mean ("20 %" is 20 or 0.2), `beside` the same for the numbers one unit of the last digit
    away, for which it is most easily mistaken. `small` are those that stand in every table: 2, 0.3, a half.
    """

    text: str
    start: int
    readings: tuple[Reading, ...]
    beside: tuple[tuple[Reading, ...], ...]
    small: bool
    negative: bool


@dataclass(frozen=True)
class Sentence:
    """A sentence as shown; the same with all that is no prose hidden, then without its links; the keys that it cites."""

    text: str
    prose: str
    unlinked: str
    cites: frozenset[str] = frozenset()
    states: bool = True


@dataclass(frozen=True)
class Evidence:
    """A number on the page that can hold one in a sentence, and the words beside it."""

    value: float
    words: frozenset[str]
    kind: str


@dataclass
class Section:
    """From one heading to the next: its sentences, the evidence that its cells give, and whether there are any but parameters."""

    title: str
    sentences: list[Sentence] = field(default_factory=list)
    evidence: list[Evidence] = field(default_factory=list)
    computes: bool = False


@dataclass(frozen=True)
class Remark:
    """Words of a sentence that nothing holds, or that lack a link."""

    section: str
    words: str
    sentence: str

    def __str__(self) -> str:
        return f"[{self.section}] {self.words!r} in: {self.sentence}"


# ---- sentences ----

_ABBREVIATION = re.compile(r"(?:\b(?:Eqs?|Figs?|Sec|Tab|No|vs|cf|al|approx|e\.g|i\.e)|\b[A-Z])\.$")
_SENTENCE_END = re.compile(r"[.!?][\"”)*]*\s+(?=[\"“(*✓✗]*[A-Z\x00])")
_COUNTED = r"\(?\d+(?:\.\d+)*[a-z]?\)?"
_REFERENCE = re.compile(
    r"\b(?:tables?|figures?|figs?\.?|sections?|theorems?|lemmas?|algorithms?|eqs?\.?|equations?|examples?|footnotes?|chapters?"
    r"|algs?\.|claims?|exercises?|appendix|definitions?|propositions?|corollary|corollaries|lines?|notebooks?|rules?|python"
    r"|groups?|clients?|agents?|labels?|class|classes|seeds?|lender|model|parts?)\s+"
    rf"{_COUNTED}(?:(?:,| and|, and| or| to|–|-)\s*{_COUNTED}(?![\w.]*\s?%))*",
    re.I,
)
_YEAR = re.compile(r"\b(?:19|20)\d\d\b(?!,\d|\.\d| [a-z]+s\b)")
_LEVEL = re.compile(r"\b9\d ?% (?=(?:confidence )?intervals?\b)")
_READING_TIME = re.compile(r"\b\d+ (?:more )?minutes?\b|(?<=and )\d+ more with the exercises")
_SYMBOL = re.compile(r"(?<=\x00) ?[=≤≥<>] ?-?\d[\d.,]*\d?(?:(?:, | and | or )\d[\d.]*\d?)*")
_SUPPOSITION = re.compile(r"(?:Take|Let|Suppose|Imagine|If)\b")


@cache
def _reader() -> MarkdownIt:
    from myst_parser.config.main import MdParserConfig
    from myst_parser.mdit_to_docutils.base import DocutilsRenderer
    from myst_parser.parsers.mdit import create_md_parser

    extensions = {"amsmath", "attrs_inline", "colon_fence", "deflist", "dollarmath", "fieldlist", "html_image", "substitution"}
    return create_md_parser(MdParserConfig(enable_extensions=extensions), DocutilsRenderer)


_SILENT = re.compile(r"math|bibliography|raw|code.*|figure|image|tableofcontents")
_SUPPOSED = re.compile(r"exercise|prf:.*")  # what an exercise supposes, what a theorem says and its proof deduces
_UNTITLED = ("solution-start", "solution-end", "list-table")


def blocks(text: str, kind: str = "states") -> Iterator[tuple[str, Token]]:
    """The pieces of a page in MyST that hold sentences: what they do (heads, states, supposes), and the inline token."""
    tokens = _reader().parse(text)
    for position, token in enumerate(tokens):
        if token.type in ("fence", "colon_fence"):
            directive = re.match(r"\{([\w:-]+)\}\s*(.*)", token.info.strip())
            if directive and not _SILENT.fullmatch(directive[1]):
                body = re.sub(r"\A(?:\s*:[\w-]+:.*\n)+", "", token.content + "\n")
                title = "" if directive[1] in _UNTITLED else directive[2]
                yield from blocks(f"{title}\n\n{body}", "supposes" if _SUPPOSED.fullmatch(directive[1]) else kind)
        elif token.type == "inline":
            yield ("heads" if tokens[position - 1].type == "heading_open" else kind), token


def sentences(token: Token, states: bool) -> Iterator[Sentence]:
    """The sentences of a block."""
    shown, prose, unlinked, cites, depth = "", "", "", set(), 0
    for child in token.children or []:
        depth += {"link_open": 1, "link_close": -1}.get(child.type, 0)
        piece, kept = child.content, child.type == "text"
        if child.type in ("softbreak", "hardbreak"):
            piece, kept = " ", True
        elif child.type == "myst_role":
            if child.meta["name"].startswith("cite"):
                cites |= set(re.split(r"\s*,\s*", piece))
            elif named := re.match(r"(.*?)\s*<[^>]*>\Z", piece, re.S):
                piece = named[1]
        shown += piece
        prose += piece if kept else HIDDEN * len(piece)
        unlinked += piece if kept and not depth else HIDDEN * len(piece)
    for hide in (_REFERENCE, _YEAR, _LEVEL, _READING_TIME, _SYMBOL):
        prose = hide.sub(lambda match: HIDDEN * len(match.group()), prose)
    start = 0
    ends = [m.end() for m in _SENTENCE_END.finditer(prose) if not _ABBREVIATION.search(prose[: m.start() + 1])]
    for end in [*ends, len(prose)]:
        if shown[start:end].strip():
            supposed = _SUPPOSITION.match(shown[start:end])
            yield Sentence(shown[start:end], prose[start:end], unlinked[start:end], frozenset(cites), states and not supposed)
        start = end


# ---- numbers ----

_DIGITS = r"(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?|\.\d+"
_WORD = "|".join(sorted(WORDS.keys() - {"zero", "one"}, key=lambda word: (-len(word), word)))
_PART = "|".join(PARTS)
_NUMBER = re.compile(
    rf"(?<![\w.^/])(?<![\w\x00][-−–])(?P<sign>[-−+]?)(?P<digits>{_DIGITS})"
    r"(?:(?P<exponent>e-?\d+)|(?P<percent> ?%| per ?cent\b)?)(?![\w/]|-[a-z]|,\d|\.\d)"
    # "a third of", and not "a third lender"
    rf"|(?<![\w-])(?P<many>{_WORD}|an?|one)[ -](?P<part>{_PART})"
    r"(?:s\b|\b(?=[.,;:)]| (?:of|as|or|and|to|is|are|in|more|less|the)\b|$))"
    r"|(?<![\w-])(?<!first )(?<!second )(?P<half>half)\b(?! an? | time)"
    rf"|(?<![\w-])(?P<times>{'|'.join(TIMES)})\b"
    rf"|(?<![\w-])(?P<word>{_WORD})(?: (?P<scale>hundred|thousand|million))?\b(?!-\w)",
    re.I,
)
_ABOUT = re.compile(r"\b(?:about|around|roughly|nearly|almost|near)\s+(?:an? )?$", re.I)


def numbers(sentence: Sentence) -> list[Number]:
    """The numbers that a sentence states: figures and words from two upwards, fractions, twice."""
    found = [_number_at(match, sentence.prose) for match in _NUMBER.finditer(sentence.prose)]
    return [number for number in found if number is not None]


def _number_at(match: re.Match[str], prose: str) -> Number | None:
    about = bool(_ABOUT.search(prose[: match.start()]))
    readings: list[Reading]
    beside: list[list[Reading]]
    if digits := match["digits"]:
        plain = digits.replace(",", "")
        value, half = float(plain), 0.5 / 10 ** len(plain.partition(".")[2])
        if match["exponent"]:
            scale = 10.0 ** int(match["exponent"][1:])
            readings = [(value * scale, half * scale)]
        elif match["percent"]:
            readings = [(value, half), (value / 100, half / 100)]
        elif "." in plain:
            readings = [(value, half)]
        elif plain in ("0", "1"):
            return None  # the ends of a scale; as words they are not read either
        else:
            zeros = len(plain) - len(plain.rstrip("0"))
            readings = [(value, 10**zeros / 2 if about else 0.0)]
        beside = [[(v + side * (2 * off or 1), off) for v, off in readings] for side in (-1, 1)]
        small = int(plain.replace(".", "")) <= 12
    elif match["word"]:
        value = WORDS[match["word"].lower()] * (WORDS[match["scale"].lower()] if match["scale"] else 1)
        readings, beside = [(value, 0.0)], [[(value - 1, 0.0)], [(value + 1, 0.0)]]
        small = value <= 12
    else:
        above, below, off, small = 1, 2, 0.05 if about else 0.0, True
        if part := match["part"]:
            above, below = WORDS.get(match["many"].lower(), 1), PARTS[part.lower()]
        elif match["times"]:
            below, off = TIMES[match["times"].lower()], 0.0
        # "Half of it" is asserted as x < 0.5 or as 2 * x < 1.
        readings, *beside = [
            [(above / one, off), *([(float(one), 0.0)] if above == 1 else [])]
            for one in (below, *((below - 1,) if below > 2 else ()), below + 1)
        ]
    negative = match["digits"] is not None and match["sign"] in ("-", "−")
    return Number(match.group().strip(), match.start(), tuple(readings), tuple(map(tuple, beside)), small, negative)


# ---- evidence ----

_PRINTED = re.compile(r"(?<![\w.])[-+−]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:[eE][-+]?\d+)?(?=%?(?![\w]|\.\d))|(?<=/)\d+")


@cache
def stems(text: str) -> frozenset[str]:
    """The words of a text, without their endings: what a sentence and the name of a column have in common."""
    found = re.findall(r"[^\W\d_]+", re.sub(r"(?<=\w)-(?=[^\W\d])", "", text.lower()))
    return frozenset(_stem(word) for word in found if word not in _COMMON)


def _stem(word: str) -> str:
    for ending in ("ies", "es", "s", "ing", "ed"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word.removesuffix(ending)
    return word


_COMMON = frozenset(
    re.findall(
        r"\w+",
        """the a an of in on and or to is are was were it its by for with at as from that this these those all no not be which
        than we our us they their has have had one other so there where when what who how if but do does can may more less each
        every any""",
    )
)


def printed(text: str) -> list[float]:
    """The numbers in an output or on a card."""
    return [float(match.group().replace(",", "").replace("−", "-")) for match in _PRINTED.finditer(text)]


def from_text(text: str) -> Iterator[Evidence]:
    for line in text.splitlines():
        words = stems(line)
        for value in printed(line):
            yield Evidence(value, words, "output")


def from_html(html: str) -> Iterator[Evidence]:
    """Numbers of tables with the words of their row and column; of other markup with those of their line."""
    from bs4 import BeautifulSoup

    soup = BeautifulSoup(html, "html.parser")
    for away in soup(["style", "script"]):
        away.decompose()
    for table in soup("table"):
        heads: dict[int, str] = {}
        caption = table.find("caption")
        about = stems(caption.get_text(" ")) if caption else frozenset()
        spans: dict[int, tuple[int, str]] = {}
        positions = _positions(table)
        for row in table("tr"):
            column, cells = 0, []
            for cell in row(["th", "td"]):
                while spans.get(column, (0, ""))[0] > 0:
                    cells.append((column, "th", spans[column][1]))
                    spans[column] = (spans[column][0] - 1, spans[column][1])
                    column += 1
                text = cell.get_text(" ", strip=True)
                rows = int(str(cell.get("rowspan", "1")))
                for _ in range(int(str(cell.get("colspan", "1")))):
                    cells.append((column, cell.name, text))
                    if rows > 1:
                        spans[column] = (rows - 1, text)
                    column += 1
            if all(kind == "th" for _, kind, _ in cells):
                for position, _, text in cells:
                    heads[position] = f"{heads.get(position, '')} {text}"
                    for value in printed(text):
                        yield Evidence(value, stems(text) | stems(heads.get(0, "")) | about, "head")
                continue
            label = " ".join(text for _, kind, text in cells if kind == "th" or not printed(text))
            for position, kind, text in cells:
                for value in printed(text) if text not in positions or kind == "td" else ():
                    words = stems(label) | stems(text) | stems(heads.get(position, "")) | about
                    yield Evidence(value, words, "head" if kind == "th" else "output")
        table.decompose()
    yield from from_text(soup.get_text("\n"))


def _positions(table: Any) -> set[str]:
    """The heads of rows that only count them: 0, 1, 2, ..."""
    heads = [row.find("th").get_text(strip=True) for row in table("tr") if row.find("td") and row.find("th")]
    return set(heads) if heads in ([str(i + first) for i in range(len(heads))] for first in (0, 1)) else set()


def from_outputs(outputs: Iterable[dict[str, Any]]) -> Iterator[Evidence]:
    for output in outputs:
        data = output.get("data", {})
        if any(mime.startswith("image/") for mime in data):
            continue  # the digest of a figure is not displayed
        if "text/html" in data:
            yield from from_html("".join(data["text/html"]))
        else:
            yield from from_text("".join(output.get("text", data.get("text/plain", ""))))


def from_code(source: str, visible: bool) -> Iterator[Evidence]:
    """Numbers that an assert compares, and in visible code those that are given a name or handed to one."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return
    lines = source.splitlines()
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert):
            said = stems(_comment(lines, node))
            for part in node.test.values if isinstance(node.test, ast.BoolOp) else [node.test]:
                words = said | stems(ast.unparse(part))
                for value in _literals(part):
                    yield Evidence(value, words, "assert")
        elif not visible:
            continue
        elif isinstance(node, ast.keyword) and node.arg not in _FORM:
            for value in _constants(node.value):
                yield Evidence(value, stems(node.arg or ""), "constant")
        elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            words = stems(" ".join(ast.unparse(target) for target in targets)) | stems(_comment(lines, node))
            for value in _constants(node.value):
                yield Evidence(value, words, "constant")
        elif isinstance(node, ast.Call) and not (isinstance(node.func, ast.Attribute) and node.func.attr in _FORM):
            for argument in node.args:
                for value in _constants(argument):
                    yield Evidence(value, stems(ast.unparse(node.func)), "constant")


_FORM = {
    "round",
    "figsize",
    "decimals",
    "axis",
    "ddof",
    "atol",
    "rtol",
    "head",
    "ncols",
    "nrows",
    "lw",
    "alpha_",
    "markersize",
    "stack",
    "unstack",
}


def _comment(lines: Sequence[str], node: ast.stmt) -> str:
    last = lines[(node.end_lineno or node.lineno) - 1]
    return last.partition("#")[2]


def _literals(node: ast.AST) -> Iterator[float]:
    """The numbers of an assert that say what something is: no positions, no digits to round to, no tolerances."""
    if isinstance(node, ast.Subscript):
        yield from _literals(node.value)
    elif isinstance(node, ast.keyword) and node.arg in _FORM:
        return
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _FORM:
        yield from _literals(node.func)
    elif (value := _number(node)) is not None:
        yield value
        if isinstance(node, ast.BinOp):
            for child in ast.iter_child_nodes(node):
                yield from _literals(child)
    else:
        for child in ast.iter_child_nodes(node):
            yield from _literals(child)


def _constants(node: ast.AST) -> Iterator[float]:
    """A number, or those of a list, tuple or dict of numbers."""
    if (value := _number(node)) is not None:
        yield value
    elif isinstance(node, ast.List | ast.Tuple | ast.Set):
        for child in node.elts:
            yield from _constants(child)
    elif isinstance(node, ast.Dict):
        for child in node.values:
            yield from _constants(child)


def _number(node: ast.AST) -> float | None:
    """The value of a number, a signed one, or a quotient or product of two."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool):
        return float(node.value)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = _number(node.operand)
        return None if value is None else -value
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div | ast.Mult):
        left, right = _number(node.left), _number(node.right)
        if left is None or right is None or (right == 0 and isinstance(node.op, ast.Div)):
            return None
        return left / right if isinstance(node.op, ast.Div) else left * right
    return None


# ---- pages ----


def read(path: Path) -> list[Section]:
    """The sections of a notebook or a page in Markdown."""
    if path.suffix != ".ipynb":
        cells: list[dict[str, Any]] = [{"cell_type": "markdown", "source": path.read_text(encoding="utf-8"), "metadata": {}}]
    else:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    found = [Section("")]
    for cell in cells:
        source, tags = "".join(cell["source"]), cell["metadata"].get("tags", [])
        if cell["cell_type"] == "markdown":
            for kind, token in blocks(source):
                if kind == "heads":
                    found.append(Section(token.content))
                found[-1].sentences += sentences(token, kind == "states")
        elif cell["cell_type"] == "code":
            visible = not {"hide-input", "remove-cell", "hide-cell", "remove-input"} & set(tags)
            here = [*from_code(source, visible), *from_outputs(cell.get("outputs", []))]
            if "parameters" in tags:
                here = [replace(one, kind="parameter") for one in here]
            found[-1].evidence += here
            found[-1].computes |= "parameters" not in tags
    return found


# ---- what holds a number ----

_OF_THE_PAPER = re.compile(r"\b(?:papers?|prints?|printed|authors?|footnote|margins?)\b", re.I)
_REFERS_BACK = re.compile(
    r"(?:\b(?:the|these|those|its|their|our|other|all|first|last|next|same|any|either|both)|\w['’]s?)\s+(?:\w+\s+)?\Z", re.I
)
_OF_THE_TEXT = re.compile(
    r"\s+(?:identical|equal|different|such|(?:\w+ )?"
    r"(?:ways|kinds|things|points|questions|sides|parts|pieces|readings|remedies|reasons|cautions|versions))\b",
    re.I,
)
_SLACK = 1e-9
_UP_TO_FIVE = ("two", "three", "four", "five")
_LISTED = re.compile(r"(?:\s+[\w\x00’'-]+){0,4}?\s*[:,(]\s*")
_QUOTED = re.compile(r"[\"“]([^\"”]+)[\"”]")


@cache
def from_card(paper: str) -> tuple[Evidence, ...]:
    """What a paper's card says was printed, with the words of its place."""
    card = cards.load(paper)

    def label(key: str) -> str:
        return f"{key} {card.labels.get(key, '')}"

    found = []
    for entry in card.entries.values():
        if entry.whose == "paper":
            words = stems(" ".join(f"{key} {label(value)}" for key, value in entry.keys.items()) or entry.says)
            found += [Evidence(value, words, "card") for value in printed(entry.printed)]
    for metric, margin in card.margins.items():
        found.append(Evidence(float(margin["margin"]), stems(f"margin {label(metric)}"), "card"))
    for name, setting in [*card.settings.items(), ("seeds runs", card.printed_seeds)]:
        found += [Evidence(value, stems(f"{name} {setting}"), "card") for value in printed(str(setting))]
    return tuple(found)


def is_language(sentence: Sentence, number: Number) -> bool:
    """Whether a number word up to five counts the text and not a result: "the two", "these three groups", "in two ways"."""
    before, after = sentence.prose[: number.start], sentence.prose[number.start + len(number.text) :]
    return number.text.lower() in _UP_TO_FIVE and bool(_REFERS_BACK.search(before) or _OF_THE_TEXT.match(after))


def is_listed(sentence: Sentence, number: Number) -> bool:
    """Whether the sentence names as many as it says: "two lenders, North and South", "three ratios: SP, EO and EQO"."""
    rest = sentence.prose[number.start + len(number.text) :]
    if number.text.lower() not in WORDS or not (start := _LISTED.match(rest)):
        return False
    rest = re.split(r"[.)]", re.sub(r"\([^)]*\)", "", rest[start.end() :]))[0]
    if ";" in rest:
        items = rest.split(";")
    else:
        *items, last = re.split(r",?\s(?:and|or)\s", rest, maxsplit=1)
        items = [*",".join(items).split(","), last.split(",")[0]]
    return len([item for item in items if item.strip()]) == WORDS[number.text.lower()]


def is_quoted(sentence: Sentence, number: Number, papers: Iterable[str]) -> bool:
    """Whether the number stands between quotation marks, in words that a card quotes too."""
    quotes = [m[1] for m in _QUOTED.finditer(sentence.text) if m.start() <= number.start < m.end()]
    texts = [" ".join(cards.text(paper).split()) for paper in papers] if quotes else []
    return any(" ".join(quote.split()).rstrip(".,") in text for quote in quotes for text in texts)


def _counted(sentence: Sentence, number: Number) -> frozenset[str]:
    """The words that follow a number: what it counts."""
    rest = sentence.prose[number.start + len(number.text) :].replace(HIDDEN, " ")
    return stems(" ".join(re.findall(r"[^\W\d_]+", re.split(r"[.;:(]", rest)[0])[:4]))


def _strength(evidence: Evidence, words: frozenset[str], counted: frozenset[str]) -> int:
    """How much evidence and sentence have in common; an assert says what it is about, and a table has many numbers."""
    shared = len(words & evidence.words)
    return shared + 2 * bool(counted & evidence.words) + 3 * (shared > 0 and evidence.kind == "assert")


def is_held(
    sentence: Sentence, number: Number, stated: Sequence[Number], near: Sequence[Evidence], far: Sequence[Evidence]
) -> bool:
    """Whether evidence holds this number so that one unit more or less would be noticed.

    There is some for it, and none as strong for a number one unit beside it, unless the sentence states that one as well.
    """
    words, counted = stems(sentence.text), _counted(sentence, number)

    def strongest(readings: Iterable[Reading]) -> int:
        fitting = (
            _strength(one, words, counted) + bonus
            for bonus, among in ((1, near), (0, far))
            for one in among
            for value, off in readings
            if abs(abs(one.value) - value) <= off + _SLACK and (one.value < 0 or not number.negative)
        )
        return max(fitting, default=-1)

    best = strongest(number.readings)
    if best < (2 if number.small else 0):  # only words in common tell which 2 is meant
        return False
    others = {value for one in stated for value, _ in one.readings}
    return all(strongest([reading for reading in beside if reading[0] not in others]) < best for beside in number.beside)


def evidence_for(
    sentence: Sentence, number: Number, section: Section, page: Sequence[Section], cards: Sequence[str]
) -> tuple[list[Evidence], list[Evidence]]:
    """What may hold a number, near and far.

    Near is its section. Far is what the page fixes elsewhere about the thing counted, and the card if the paper is spoken of. A
    section without code, an opening or what to take away, sums up the page: near are all asserts, far all the rest.
    """
    everything = [one for other in page for one in other.evidence]
    near = section.evidence
    if not section.computes:
        near = [one for one in everything if one.kind == "assert"]
        far = [one for one in everything if one.kind != "assert"]
    else:
        counted = _counted(sentence, number)
        far = [one for one in everything if one.kind in ("assert", "constant", "parameter") and counted & one.words]
    if sentence.cites or _OF_THE_PAPER.search(sentence.text):
        far += [one for card in cards for one in from_card(card)]
    return near, far


def cards_of(sentence: Sentence, name: str) -> list[str]:
    """The cards of the papers that a sentence of a page speaks of: those it cites, and that of the page's folder.

    The citation key of a paper with a card is its name in one word, with or without the year: fairfate, rankff2023.
    """
    cited = {re.sub(r"\d{4}$", "", key) for key in sentence.cites}
    return [paper for paper in cards.names() if paper == name.split("/")[0] or paper.replace("-", "") in cited]


def open_numbers(
    sentence: Sentence, section: Section, page: Sequence[Section], name: str, stated: Mapping[str, float]
) -> list[Number]:
    """The numbers of a sentence that nothing holds."""
    cards, every = cards_of(sentence, name), numbers(sentence) if sentence.states else []
    return [
        number
        for number in every
        if not is_language(sentence, number)
        and not is_listed(sentence, number)
        and not is_quoted(sentence, number, cards)
        and not _is_stated(sentence, number, stated)
        and not is_held(sentence, number, every, *evidence_for(sentence, number, section, page, cards))
    ]


def unheld(page: Sequence[Section], name: str, stated: Mapping[str, float]) -> list[Remark]:
    """The numbers in the sentences of a page that nothing holds.

    name : of the page, "fairfed/2_tables". stated : phrases whose number is worked out elsewhere, with its value.
    """
    return [
        Remark(section.title, number.text, sentence.text.strip())
        for section in page
        for sentence in section.sentences
        for number in open_numbers(sentence, section, page, name, stated)
    ]


def _is_stated(sentence: Sentence, number: Number, stated: Mapping[str, float]) -> bool:
    at = number.start
    phrases = [
        phrase for phrase in stated if any(m.start() <= at < m.end() for m in re.finditer(re.escape(phrase), sentence.text))
    ]
    return any(abs(stated[phrase] - value) <= off + _SLACK for phrase in phrases for value, off in number.readings)


# ---- links ----

_PAGE = re.compile(
    r"\b(?:(?:first|second|third|fourth|fifth|sixth|next|previous|following|earlier|later|last)(?: two| three)?"
    r" (?:notebook|chapter|page)s?"
    r"|(?:chapter|notebook)s? \d+|data pages?|page (?:on|for|of) \w+)\b",
    re.I,
)


def unlinked(page: Sequence[Section]) -> list[Remark]:
    """Words that name another page ("the next notebook", "the data pages") and are no link."""
    return [
        Remark(section.title, match.group(), sentence.text.strip())
        for section in page
        for sentence in section.sentences
        for match in _PAGE.finditer(sentence.unlinked)
    ]
