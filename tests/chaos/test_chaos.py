"""A part of `make chaos`: of some hostile inputs of each kind none is a traceback, and none gives wrong numbers."""

import json

import pytest
import yaml
from chaos import hostile


@pytest.mark.parametrize("kind", hostile.KINDS)
def test_hostile_inputs_are_refused_in_one_sentence(kind):
    cases = hostile.some(hostile.KINDS[kind](20), 30, 7)
    outcomes = [hostile.tried(case) for case in cases]
    assert [f"{one.case.name}: {one.what} {one.said}" for one in outcomes if one.bad] == []


def test_the_sound_inputs_they_are_made_from_are_accepted(tmp_path):
    hostile.read_card(yaml.safe_dump(hostile.CARD))
    hostile.read_notebook(tmp_path, json.loads(json.dumps(hostile.NOTEBOOK)))


def test_a_traceback_and_a_wrong_input_that_is_taken_are_bad():
    def fails(_):
        raise KeyError("x")

    assert hostile.tried(hostile.Case("x", "fails", fails)).bad
    assert hostile.tried(hostile.Case("x", "is taken", lambda _: None, must=True)).bad
    assert not hostile.tried(hostile.Case("x", "is taken", lambda _: None)).bad
