"""`python -m chaos [PART ...]`: hostile inputs, kills, writers, disk, plants; counted, and kept in results/reliability.json.

The book's page on reliability shows what is kept there. A part that is not named keeps its counts of the last time. A command to
kill or a kind of plant can be named alone, `kills/build`: its counts join those of the others at the same commit.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from chaos import disk, hostile, kills, plants, writers
from small import ROOT

from fairfl_book import results
from fairfl_lite import store

KEPT = ROOT / "results" / "reliability.json"
STEPS = 12
"""Steps at which each writer is killed; all of them where there are fewer."""
Found = tuple[str, str, str]
"""What was tried, what became of it (one of the columns), and words where it is not as it should be."""
COLUMNS = {
    "inputs": (hostile.ACCEPTED, hostile.REFUSED, "bad"),
    "kills": ("same", "bad"),
    "writers": ("same", "bad"),
    "disk": ("same", "left out", "bad"),
    "plants": ("caught", "allowed", "missed"),
}
BAD = ("bad", "missed")
WORDS = (*BAD, "allowed", "left out")
"""What is kept with the words that belong to it."""


def inputs() -> Iterator[Found]:
    for kind, make in hostile.KINDS.items():
        for case in make(hostile.SHARES[kind]):
            outcome = hostile.tried(case)
            yield kind, "bad" if outcome.bad else outcome.what, f"{case.name}: {outcome.what} {outcome.said[:200]}"


def killed(only: str = "") -> Iterator[Found]:
    for command in [kills.COMMANDS[only]] if only else kills.COMMANDS.values():
        for trial in kills.tried(command, command.kills):
            yield command.name, "bad" if trial.problems else "same", f"{trial.how} after {trial.after:.2f} s: {trial.problems}"


def written() -> Iterator[Found]:
    for writer in writers.WRITERS.values():
        for trial in writers.tried(writer, STEPS):
            yield writer.name, "bad" if trial.problems else "same", f"step {trial.step} of {trial.steps}: {trial.problems}"


def disks() -> Iterator[Found]:
    for trial in disk.tried():
        what = "left out" if disk.NO_MOUNT in trial.problems else "bad" if trial.problems else "same"
        yield trial.how, what, f"{trial.command}: {trial.problems}"


def planted(*kinds: str) -> Iterator[Found]:
    """In a process that has not imported the package: it imports copies of it."""
    command = [sys.executable, plants.__file__, *kinds]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        for line in process.stdout:
            one = json.loads(line)
            yield one["kind"], one["what"], f"{one['name']} ({one['test']}). {one['allowed']}"
    if process.returncode not in (0, 1):
        yield "plants", "missed", f"the plants ended with {process.returncode}"


PARTS: dict[str, Callable[[], Iterator[Found]]] = {
    "inputs": inputs, "kills": killed, "writers": written, "disk": disks, "plants": planted,
}  # fmt: skip
ALONE = {f"kills/{name}": partial(killed, name) for name in kills.COMMANDS}
ALONE |= {f"plants/{plant.kind}": partial(planted, plant.kind) for plant in plants.PLANTS}


def tried(name: str) -> dict[str, Any]:
    """The counts of a part, by what was tried, and the words that belong to them."""
    part, began, counts, said = name.partition("/")[0], time.monotonic(), {}, {what: [] for what in WORDS}
    print(f"{part:>40} {'tried':>6}" + "".join(f"{column:>10}" for column in COLUMNS[part]), flush=True)
    for what, became, words in (PARTS | ALONE)[name]():
        if what not in counts:
            print(f"{what:>40} ...", flush=True)
        counts.setdefault(what, Counter())[became] += 1
        if became in said:
            said[became].append(f"{what}: {words}")
            print(f"{'':>40} {became}: {what}: {words}", flush=True)
    for what, found in {**counts, "all": sum(counts.values(), Counter())}.items():
        row = "".join(f"{found[column]:>10}" for column in COLUMNS[part])
        print(f"{what:>40} {found.total():>6}{row}", flush=True)
    return {
        "counts": {what: {column: found[column] for column in COLUMNS[part]} for what, found in counts.items()},
        **{what: words for what, words in said.items() if words},
        "seconds": round(time.monotonic() - began), "git": results._git(), "python": results.versions()["python"],
    }  # fmt: skip


def joined(kept: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    """The counts of one row beside those of the others at the same commit."""
    if kept.get("git") != found["git"]:
        return found
    again = tuple(f"{what}: " for what in found["counts"])
    both = found | {"counts": kept["counts"] | found["counts"], "seconds": kept["seconds"] + found["seconds"]}
    for became in WORDS:
        words = [one for one in kept.get(became, []) if not one.startswith(again)] + found.get(became, [])
        both |= {became: words} if words else {}
    return both


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m chaos", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)}; all of them if none is named")
    chosen = parser.parse_args().parts or list(PARTS)
    if wrong := set(chosen) - set(PARTS | ALONE):
        parser.error(f"there is no part {', '.join(sorted(wrong))}: there are {', '.join(PARTS)}")
    wrong = False
    for name in chosen:
        found, part = tried(name), name.partition("/")[0]
        kept = json.loads(KEPT.read_text()) if KEPT.is_file() else {}
        store.write_json(KEPT, kept | {part: joined(kept.get(part, {}), found) if name in ALONE else found})
        wrong |= any(what in found for what in BAD)
        print(f"{name}: {found['seconds']} seconds\n", flush=True)
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
