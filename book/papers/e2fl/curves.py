"""A long run of one method, looked at from time to time; it may be stopped at any moment and goes on where it was."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from fairfl_lite import store
from fairfl_lite.errors import FairFLError
from fairfl_lite.federation import Answer, Federation, Method, State
from fairfl_lite.federation.kept import Book, digest
from fairfl_lite.federation.lockstep import stacked
from papers.e2fl.federations import accuracies, levels, true_groups

Also = Callable[[Federation, State], Mapping[str, np.ndarray]]
"""More to be measured of a method's state: names and values [run]."""


def curve(fed: Federation, method: Method, rounds: Sequence[int], keep: Path | str, every: int = 10, also: Also | None = None
          ) -> pd.DataFrame:  # fmt: skip
    """The columns of Table 1 after each of `rounds`, ascending: tidy, with method, seed, round, metric, value.

    What was found is kept in the folder, beside the state of the run, which is written every `every` rounds. E2FL is looked at
    twice, by its group models and by the global one: see `after`. What `also` finds is beside the columns.
    """
    rounds = [int(t) for t in rounds]
    if not rounds or rounds != sorted(set(rounds)) or rounds[0] < 1:
        raise FairFLError(f"Give the rounds to look at in ascending order, from 1 on, not {rounds}.")
    book, frames = Book(fed, method, (), (), Path(keep)), []
    assert book.path is not None
    for t in rounds:
        path = book.path.with_name(f"{book.path.stem}-{digest('test', also)[:8]}-{t}.csv")
        text = store.kept_text(path)
        if not text:
            text = _look(fed, method, t, Path(keep), every, also).to_csv(index=False, float_format="%.17g")
            store.keep_text(path, text)
        frames.append(pd.read_csv(io.StringIO(text)))
    return pd.concat(frames, ignore_index=True)


def after(fed: Federation, method: Method, t: int, keep: Path | str, every: int = 10) -> tuple[State, dict[str, Answer]]:
    """The state after t rounds, in which every client has chosen its group, and what is looked at: the method's answer by its
    name, and the global model of a method with groups of rankings as "<name> (gm)"."""
    state = fed.run(method, t, record=(), checkpoint_dir=keep, checkpoint_every=every).state
    if hasattr(method, "settled"):
        runs = {seed: State(state.params[r], {name: value[r] for name, value in state.memory.items()})
                for r, seed in enumerate(fed.seeds)}  # fmt: skip
        state = stacked(fed.ask(lambda one: method.settled(one, runs[one.seed])))
    answers = {method.name: method.answer(state)}
    if "groups" in state.memory:
        answers[f"{method.name} (gm)"] = state.params
    return state, answers


def _look(fed: Federation, method: Method, t: int, keep: Path, every: int, also: Also | None) -> pd.DataFrame:
    state, answers = after(fed, method, t, keep, every)
    found = {name: levels(accuracies(fed, answer), true_groups(fed)) for name, answer in answers.items()}
    if also:
        found[method.name] |= also(fed, state)
    return pd.concat([pd.DataFrame({"method": name, "seed": np.array(fed.seeds), "round": t, "metric": metric, "value": values})
                      for name, own in found.items() for metric, values in own.items()], ignore_index=True)  # fmt: skip
