"""The parameters cell of a notebook: what may be changed, of which type, within which limits.

A parameters cell holds plain assignments, read by parsing and never by executing:

    seeds: int = 3          # 1..20: how many seeds are run
    alpha: float = 0.5      # 0.01..5000: Dirichlet concentration
    dataset: str = "adult"  # one of adult|compas: which table
    rounds: int | None = 20 # 1..: None means the paper's own number
    betas: list[float] = [0.5, 1.0]  # 0..10: limits hold for every element

The comment on the last line of an assignment is `limits: meaning` or only `meaning`. Limits are `low..high`
(inclusive, either side may be left out) or `one of a|b|c`.
"""

from __future__ import annotations

import ast
import io
import math
import re
import tokenize
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fairfl_lite.errors import FairFLError, did_you_mean

KINDS: dict[str, type] = {"int": int, "float": float, "str": str, "bool": bool}
QUICK = "quick"
NOT_PYTHON = (SyntaxError, tokenize.TokenError, ValueError, RecursionError, MemoryError)
"""What reading a text as Python may raise; a cell with thousands of brackets or digits among it."""

_NUMBER = r"[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?"
_RANGE = re.compile(rf"^(?P<low>{_NUMBER})?\.\.(?P<high>{_NUMBER})?\s*(?::|$)")
_CHOICES = re.compile(r"^one of (?P<choices>[^:]+?)\s*(?::|$)")


@dataclass(frozen=True)
class Parameter:
    """One assignment of the parameters cell; `low`, `high` and `choices` hold for every element of a list.

    `meaning` is what the comment says beside the limits.
    """

    name: str
    kind: str
    many: bool
    optional: bool
    default: Any
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    meaning: str = ""

    def __str__(self) -> str:
        """The line of `fairfl run --list`: type, limits, default and meaning."""
        low, high = ("" if end is None else f"{end:g}" for end in (self.low, self.high))
        limits = f"one of {'|'.join(self.choices)}" if self.choices else f"{low}..{high}" if low or high else ""
        said = ", ".join(filter(None, (self.annotation, limits, f"default {self.default!r}")))
        return f"{self.name}: {said}" + (f" ({self.meaning})" if self.meaning else "")

    @property
    def annotation(self) -> str:
        return (f"list[{self.kind}]" if self.many else self.kind) + (" | None" if self.optional else "")

    def check(self, value: Any) -> Any:
        """`value` if its type and limits are right (an int is taken for a float), else FairFLError."""
        if value is None and self.optional:
            return None
        if not self.many:
            return self._check_one(value)
        if not isinstance(value, list | tuple):
            raise FairFLError(f"Parameter {self.name} must be {self.annotation}, not {value!r}.")
        if not value:
            raise FairFLError(f"Parameter {self.name} is an empty list: name at least one value.")
        return [self._check_one(element) for element in value]

    def parse(self, text: str) -> Any:
        """The value written on a command line; lists are separated by commas, with or without brackets."""
        if self.optional and text.strip().lower() == "none":
            return None
        if not self.many:
            return self.check(self._parse_one(text))
        elements = [part for part in text.strip().strip("[]").split(",") if part.strip()]
        return self.check([self._parse_one(part) for part in elements])

    def _check_one(self, value: Any) -> Any:
        if self.kind == "float" and type(value) is int:
            value = float(value)
        if type(value) is not KINDS[self.kind]:
            raise FairFLError(f"Parameter {self.name} must be {self.annotation}, not {value!r}.")
        if self.choices and str(value) not in self.choices:
            raise FairFLError(
                f"Parameter {self.name} must be one of {', '.join(self.choices)}, not {value!r}"
                f"{did_you_mean(str(value), self.choices)}."
            )
        low = -math.inf if self.low is None else self.low
        high = math.inf if self.high is None else self.high
        if isinstance(value, int | float) and not low <= value <= high:  # nan is out of every range
            raise FairFLError(f"Parameter {self.name} must be within {low:g}..{high:g}, not {value!r}.")
        return value

    def _parse_one(self, text: str) -> Any:
        text = text.strip()
        if self.kind == "str":
            return text.strip("'\"")
        if self.kind == "bool":
            if text.lower() in ("true", "false"):
                return text.lower() == "true"
            raise FairFLError(f"Parameter {self.name} must be true or false, not {text!r}.")
        try:
            return KINDS[self.kind](text)
        except ValueError:
            raise FairFLError(f"Parameter {self.name} must be {self.annotation}, not {text!r}.") from None


def declared(notebook: Mapping[str, Any]) -> dict[str, Parameter]:
    """The parameters of a notebook, in the order of its parameters cell; empty when it has no such cell."""
    cells = [cell for cell in notebook["cells"] if "parameters" in cell["metadata"].get("tags", [])]
    if len(cells) > 1:
        raise FairFLError("A notebook may have only one cell tagged parameters: join them.")
    found: dict[str, Parameter] = {}
    for cell in cells:
        source = cell["source"]
        try:
            comments, statements = _comments(source), ast.parse(source).body
        except NOT_PYTHON as error:
            raise FairFLError(f"The parameters cell is not Python ({' '.join(str(error).split())}): correct it.") from None
        for statement in statements:
            parameter = _parameter(statement, comments)
            found[parameter.name] = parameter
    _refuse_unread(notebook, found)
    return found


def resolve(notebook: Mapping[str, Any], profile: str = QUICK, overrides: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """All parameters of one run: the cell's defaults, then the profile's table, then the overrides.

    Overrides that are text are read as on a command line. Everything is checked; nothing is executed.
    """
    known = declared(notebook)
    values = {name: parameter.default for name, parameter in known.items()}
    for name, value in profile_table(notebook, profile).items():
        values[name] = _named(known, name).check(value)
    for name, value in (overrides or {}).items():
        parameter = _named(known, name)
        values[name] = parameter.parse(value) if isinstance(value, str) else parameter.check(value)
    return values


def profile_table(notebook: Mapping[str, Any], profile: str) -> dict[str, Any]:
    """What a profile changes: nothing in `quick`, else what the metadata say under fairfl.profiles."""
    tables = {QUICK: {}, **notebook["metadata"].get("fairfl", {}).get("profiles", {})}
    if tables[QUICK]:
        raise FairFLError("The quick profile is the parameters cell itself: take it out of fairfl.profiles.")
    if profile in tables:
        return dict(tables[profile])
    if profile == "paper":  # a notebook that has nothing to scale is the same in both
        return {}
    known = [*tables, "paper"]
    raise FairFLError(f"There is no profile {profile!r}{did_you_mean(profile, known)}: use quick or paper.")


def _named(known: Mapping[str, Parameter], name: str) -> Parameter:
    if name in known:
        return known[name]
    choice = ", ".join(known) or "none at all"
    raise FairFLError(f"There is no parameter {name!r}{did_you_mean(name, known)}: there are {choice}.")


def _comments(source: str) -> dict[int, str]:
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return {t.start[0]: t.string.lstrip("# ").rstrip() for t in tokens if t.type == tokenize.COMMENT}


def _parameter(statement: ast.stmt, comments: Mapping[int, str]) -> Parameter:
    if not (isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)):
        statement_as_written = ast.unparse(statement)
        raise FairFLError(f"Write a parameter as `name: type = value  # limits: meaning`, not {statement_as_written!r}.")
    if statement.value is None:
        raise FairFLError(f"Parameter {statement.target.id} has no default.")
    name, (kind, many, optional) = statement.target.id, _annotation(statement.annotation)
    try:
        default = ast.literal_eval(statement.value)
    except (*NOT_PYTHON, TypeError):
        raise FairFLError(f"The default of parameter {name} must be a plain value.") from None
    comment = comments.get(statement.end_lineno or statement.lineno, "")
    low = high = None
    choices: tuple[str, ...] = ()
    meaning = comment
    if match := _RANGE.match(comment):
        low, high = (float(end) if end else None for end in match.group("low", "high"))
        if kind not in ("int", "float"):
            raise FairFLError(f"Parameter {name} is {kind}: only numbers can have a range.")
        meaning = comment[match.end() :].strip()
    elif match := _CHOICES.match(comment):
        choices = tuple(choice.strip() for choice in match["choices"].split("|"))
        meaning = comment[match.end() :].strip()
    parameter = Parameter(name, kind, many, optional, default, low, high, choices)
    return Parameter(name, kind, many, optional, parameter.check(default), low, high, choices, meaning)


def _annotation(node: ast.expr) -> tuple[str, bool, bool]:
    """(kind, many, optional) of `int`, `list[int]`, `int | None`, `list[int] | None`."""
    written = ast.unparse(node)
    match = re.fullmatch(r"(?:list\[(?P<many>\w+)\]|(?P<one>\w+))(?P<none> \| None)?", written)
    kind = match and (match["many"] or match["one"])
    if not match or kind not in KINDS:
        raise FairFLError(f"A parameter is int, float, str, bool, a list of one, or `| None`, not {written}.")
    return kind, bool(match["many"]), bool(match["none"])


def _refuse_unread(notebook: Mapping[str, Any], found: Mapping[str, Parameter]) -> None:
    """A parameter that no cell reads would be accepted and change nothing."""
    names = set()
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code" and "parameters" not in cell["metadata"].get("tags", []):
            # Only identifiers matter, and a cell with a magic does not parse.
            names |= set(re.findall(r"[^\W\d]\w*", cell["source"]))
    unread = [name for name in found if name not in names]
    if unread:
        raise FairFLError(f"No cell reads the parameter {unread[0]}: use it or take it out.")
