"""Many runs at once: what the servers of all of them ask of their clients is answered together.

A method's round is a coroutine that stops where it awaits an answer. All runs are advanced to where they wait; their requests of
one kind are answered in one call of the engine; and so on until every round has ended. A run is answered by itself what it is
answered in company, to the bit.
"""

from __future__ import annotations

import gc
import inspect
from collections.abc import Callable, Coroutine, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from tqdm import tqdm

from fairfl_lite.errors import FairFLError, LostError, choose
from fairfl_lite.federation.history import History
from fairfl_lite.federation.kept import Book
from fairfl_lite.federation.one import OneFederation, Request, require_answer
from fairfl_lite.federation.state import Answer, ByGroup, Method, Models, State, require_method

if TYPE_CHECKING:
    from fairfl_lite.federation.core import Federation

Result = TypeVar("Result")


def advance(rounds: Sequence[Coroutine[Request, Any, Result]]) -> list[Result]:
    """What these coroutines return, each of which awaits nothing but requests to clients."""
    for coroutine in rounds:
        if not inspect.iscoroutine(coroutine):
            raise FairFLError("What asks clients must be a coroutine: write `async def` before start and round of a method.")
    results: list[Any] = [None] * len(rounds)
    collects = gc.isenabled()
    gc.disable()  # thousands of coroutines, none of them in a cycle: to look for one would take a sixth of the time
    try:
        waiting = _step(rounds, ((i, None) for i in range(len(rounds))), results)
        while waiting:
            waiting = _step(rounds, zip(waiting, answered(list(waiting.values())), strict=True), results)
    finally:
        if collects:
            gc.enable()
        for coroutine in rounds:
            coroutine.close()
    return results


def _step(
    rounds: Sequence[Coroutine[Request, Any, Any]], given: Iterable[tuple[int, Any]], results: list[Any]
) -> dict[int, Request]:
    """Send each coroutine what it waited for; who asks again, and what."""
    asked: dict[int, Request] = {}
    for i, answer in given:
        try:
            asked[i] = rounds[i].send(answer)
        except StopIteration as end:
            results[i] = end.value
            continue
        if not isinstance(asked[i], Request):
            raise FairFLError("A method can await answers of its clients and nothing else: fed.train, fed.losses and the like.")
    return asked


def answered(requests: Sequence[Request]) -> list[Any]:
    """The answers, those of one kind and to clients with the same rows in one call."""
    by_fed: dict[Any, list[int]] = {}
    for i, request in enumerate(requests):
        by_fed.setdefault((request.fed, request.kind, request.theta.dtype), []).append(i)
    alike: dict[Any, list[int]] = {}
    for (asked, *what), places in by_fed.items():
        alike.setdefault((asked.together, *what), []).extend(places)
    found: list[Any] = [None] * len(requests)
    for places in alike.values():
        fed: Federation = requests[places[0]].fed
        for i, answer in zip(places, fed.answer([requests[i] for i in places]), strict=True):
            found[i] = answer
    return found


def alone(asked: Coroutine[Request, Any, Result]) -> Result:
    """What a coroutine returns that asks clients: for code that is not itself one."""
    return advance([asked])[0]


class _Entry:
    """A method on all seeds of a federation: its states after the rounds that are done, and what was recorded."""

    def __init__(self, fed: Federation, method: Method, book: Book, rounds: int) -> None:
        self.fed, self.method, self.book = fed, method, book
        self.ones: list[OneFederation] = []
        self.enter(0)
        self.done, self.states = book.open_runs(rounds, len(fed.seeds))

    def enter(self, t: int) -> None:
        """Those who take part in round t, or in the start."""
        now = self.fed.at(t)
        if not self.ones or self.ones[0].federation is not now:
            self.ones = [OneFederation(now, run, together=True) for run in range(len(now.seeds))]

    def loses(self, lost: LostError, t: int) -> bool:
        """Whether it goes on without clients that were lost in round t; clients of others do not matter to it."""
        fed, before = self.fed.after_losing(lost, t), self.fed
        if fed is not before:
            self.fed = fed
            self.book.belongs_to(fed)
            self.enter(t)
        return fed is not before

    def checked(self, states: Sequence[Any], t: int) -> list[State]:
        """The states after round t, of which none may be something else or, unless that is kept, not finite."""
        for state in states:
            if not isinstance(state, State):
                raise FairFLError(
                    f"{'A round' if t else 'The start'} of {self.method.name} must return a State(params, memory), "
                    f"not {type(state).__name__}."
                )
            for value in (state.params, *state.memory.values()):
                require_answer(value)
        if self.fed.diverged == "refuse" and not np.isfinite(params := np.array([state.params for state in states])).all():
            wrong = self.ones[int((~np.isfinite(params)).reshape(len(params), -1).any(1).argmax())]
            raise FairFLError(f"After round {t} the model of {self.method.name} is not finite for seed {wrong.seed}: lower the "
                              "learning rate, or the setting of the method that makes its steps long.")  # fmt: skip
        return list(states)

    def history(self, eval_every: int) -> History:
        counts, memory = self.book.stacked()
        answers = [self.method.answer(state) for state in self.states]
        return History(self.method.name, self.fed.seeds, counts, stacked(self.states), _one_answer(answers), memory, eval_every,
                       dict(self.fed.gone))  # fmt: skip


def run_together(pairs: Sequence[tuple[Federation, Method]], rounds: int, *, record: Sequence[str] = ("test",),
                 remember: Sequence[str] = (), eval_every: int = 1, checkpoint_dir: Path | str | None = None,
                 checkpoint_every: int = 1, progress: bool = False) -> list[History]:  # fmt: skip
    """`rounds` rounds of each method on each seed of its federation, all of them at once; see Federation.run."""
    if rounds < 1 or checkpoint_every < 1:
        raise FairFLError(f"A run needs at least one round, and so does what is kept; not {rounds} and {checkpoint_every}.")
    if eval_every < 1 or rounds % eval_every:
        raise FairFLError(
            f"The last of {rounds} rounds must be recorded: record every so many that divide them, not {eval_every}."
        )
    entries = []
    for fed, method in pairs:
        require_method(method)
        for part in record:
            choose(part, fed.shards, "part of the data")
        if method.must_see and not fed.sums_are_plain:
            raise FairFLError(f"{method.name} must see {method.must_see}, and the aggregate of this federation shows the server "
                              "sums alone: leave out `aggregate`, or take a method for which they suffice.")  # fmt: skip
        book = (
            Book(fed, method, record, remember, Path(checkpoint_dir), eval_every)
            if checkpoint_dir
            else Book.empty(record, remember)
        )
        entries.append(_Entry(fed, method, book, rounds))
    fresh = [entry for entry in entries if not entry.states]
    for entry, states in _whole(fresh, 0, lambda: _started(fresh)):
        entry.states = states
    for t in tqdm(range(1, rounds + 1), disable=not progress, unit="round"):
        going = [entry for entry in entries if entry.done < t]
        parts = () if t % eval_every else record
        after, seen = _whole(going, t, lambda going=going, t=t, parts=parts: _rounds(going, t, parts))  # type: ignore[misc]
        for entry, states in after:
            entry.states = states
        if t % eval_every:
            continue
        for i, entry in enumerate(going):
            memory = {name: np.stack([np.asarray(state[name]) for state in entry.states]) for name in remember}
            counts = {part: np.stack([counts for counts, _ in found[i][1]]) for part, found in seen.items()}
            entry.book.add(counts, memory)
            if checkpoint_dir and (t % checkpoint_every == 0 or t == rounds):
                entry.book.save_runs(t, entry.states)
    return [entry.history(eval_every) for entry in entries]


def _whole(entries: Sequence[_Entry], t: int, do: Callable[[], Result]) -> Result:
    """What `do` finds with those who take part in round t; it is done anew without clients that are lost in the middle."""
    for entry in entries:
        entry.enter(t)
    while True:
        try:
            return do()
        except LostError as lost:
            if not any([entry.loses(lost, t) for entry in entries]):
                raise


def _started(entries: Sequence[_Entry]) -> list[tuple[_Entry, list[State]]]:
    begun = [entry.method.start(one) for entry in entries for one in entry.ones]
    return [(entry, entry.checked(states, 0)) for entry, states in _each(entries, begun)]


def _rounds(
    going: Sequence[_Entry], t: int, record: Sequence[str]
) -> tuple[list[tuple[_Entry, list[State]]], dict[str, list[tuple[_Entry, list[Any]]]]]:
    """The states after round t, and for each part of the data what their answers are worth on it."""
    asked = [entry.method.round(one, state, t) for entry in going for one, state in zip(entry.ones, entry.states, strict=True)]
    after = [(entry, entry.checked(states, t)) for entry, states in _each(going, asked)]
    questions = {part: [one._scoring(entry.method.answer(state), None, part) for entry, states in after
                        for one, state in zip(entry.ones, states, strict=True)] for part in record}  # fmt: skip
    return after, {part: _shared(going, answered(asked)) for part, asked in questions.items()}


def _each(entries: Sequence[_Entry], asked: Sequence[Coroutine[Request, Any, Result]]) -> list[tuple[_Entry, list[Result]]]:
    """What these coroutines return, one for each run of each entry, by entry."""
    return _shared(entries, advance(asked))


def _shared(entries: Sequence[_Entry], found: Sequence[Result]) -> list[tuple[_Entry, list[Result]]]:
    """What was found for each run of each entry, by entry."""
    at, out = 0, []
    for entry in entries:
        out.append((entry, list(found[at : at + len(entry.ones)])))
        at += len(entry.ones)
    return out


def stacked(states: Sequence[State]) -> State:
    """The states of all runs as one, [run, ...]; what differs in shape between runs stays a tuple."""
    memory: dict[str, Any] = {}
    for name in states[0].memory:
        values = [np.asarray(state.memory[name]) for state in states]
        memory[name] = np.stack(values) if len({value.shape for value in values}) == 1 else tuple(values)
    return State(np.stack([state.params for state in states]), memory)


def _one_answer(answers: Sequence[Answer]) -> Answer:
    if isinstance(answers[0], Models | ByGroup):
        return type(answers[0])(*(np.stack(parts) for parts in zip(*answers, strict=True)))
    return np.stack(answers)
