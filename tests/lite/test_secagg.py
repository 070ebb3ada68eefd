"""Secure aggregation: exact sums, dropouts, what the server can and cannot see."""

from __future__ import annotations

import itertools
import os
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import chisquare

from fairfl_lite.errors import FairFLError
from fairfl_lite.federation import secagg
from fairfl_lite.federation.secagg import (
    Client,
    Keys,
    Random,
    SecAgg,
    Server,
    agree,
    decode,
    encode,
    prg,
    public,
    reconstruct,
    share,
)


def assert_uniform(content: bytes) -> None:
    """Chi-square over the 256 byte values; the bound is far below what a fair source ever shows."""
    counts = np.bincount(np.frombuffer(content, dtype=np.uint8), minlength=256)
    assert len(content) >= 256 * 20
    assert chisquare(counts).pvalue > 1e-6


def seen(agg: SecAgg, step: str) -> dict[int, bytes]:
    """{client: the bytes the server saw from it in a step}."""
    content: dict[int, bytes] = {}
    for message in agg.transcript:
        if message.step == step:
            content[message.sender] = content.get(message.sender, b"") + message.content
    return content


def drawn(*numbers: int) -> Random:
    """A source of randomness that gives these numbers in turn."""
    stream = iter(numbers)
    return lambda size: next(stream).to_bytes(size, "big")


def play(agg: SecAgg, x: np.ndarray, until: str = "unmask") -> tuple[Server, list[Client], dict]:
    """The protocol by hand, stopped before the step `until`: the server, the clients and the step's input."""
    server = Server(agg, agg.transcript)
    clients = [Client(k, agg) for k in range(agg.clients)]
    keys = server.advertise_keys({c.k: c.advertise_keys() for c in clients})
    sealed = server.share_keys({c.k: c.share_keys(keys) for c in clients})
    if until == "masked input":
        return server, clients, sealed
    server.masked_input({c.k: c.masked_input(x[c.k], sealed[c.k]) for c in clients})
    return server, clients, {}


def answered(agg: SecAgg, x: np.ndarray, gone: tuple[int, ...] = ()) -> tuple[Server, list[int], dict]:
    """The protocol by hand, `gone` dropped, up to the survivors' honest answers."""
    server, clients, sealed = play(agg, x, until="masked input")
    staying = [c for c in clients if c.k not in gone]
    survivors, dropped = server.masked_input({c.k: c.masked_input(x[c.k], sealed[c.k]) for c in staying})
    return server, survivors, {c.k: c.unmask(survivors, dropped) for c in staying}


def test_fixed_point_by_hand():
    # f = 4: 1.5 -> 24; -0.25 -> -4 = 2^64 - 4; 0.1 -> 1.6 -> 2, or 0.125; 0.03125 -> 0.5 -> 0 (half to even).
    words = encode([1.5, -0.25, 0.1, 0.03125], fraction_bits=4, clients=2)
    assert words.dtype == np.uint64
    assert words.tolist() == [24, 2**64 - 4, 2, 0]
    assert decode(words, 4).tolist() == [1.5, -0.25, 0.125, 0.0]
    assert decode(words + words, 4).tolist() == [3.0, -0.5, 0.25, 0.0]


@given(st.floats(-1e6, 1e6), st.integers(0, 40))
def test_encoding_error_is_at_most_half_a_step(x, bits):
    word = int(encode([x], bits, clients=4).view(np.int64)[0])
    assert abs(Fraction(word, 2**bits) - Fraction(x)) <= Fraction(1, 2 ** (bits + 1))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 2.0**31 / 5, -(2.0**31) / 5, 1e308])
def test_values_out_of_range_are_refused_with_the_range(bad):
    values = np.zeros((5, 3))
    values[2, 1] = bad
    with pytest.raises(FairFLError, match=r"strictly between -4\.29497e\+08 and 4\.29497e\+08"):
        SecAgg(5).sum(values)


def test_the_largest_admissible_values_do_not_wrap_around():
    for clients in (2, 3, 5, 7):
        largest = np.nextafter(2.0**31 / clients, 0)
        for sign in (1, -1):
            total = SecAgg(clients).sum(np.full(clients, sign * largest))
            assert total == pytest.approx(sign * clients * largest, rel=1e-15)


@settings(max_examples=40, deadline=None)
@given(st.data(), st.integers(2, 6), st.sampled_from([0, 8, 32, 40]))
def test_sum_is_exact_up_to_the_stated_error(data, clients, bits):
    x = data.draw(arrays(np.float64, (clients, 3), elements=st.floats(-1e5, 1e5)))
    total = SecAgg(clients, fraction_bits=bits).sum(x)
    for column, value in zip(x.T, total, strict=True):
        exact = sum(map(Fraction, column.tolist()))
        rounding = Fraction(float(np.spacing(abs(value)))) / 2
        assert abs(Fraction(float(value)) - exact) <= Fraction(clients, 2 ** (bits + 1)) + rounding


def test_aggregator_sums_over_clients_of_one_run_after_another():
    agg = SecAgg(5, dropouts=2)
    for x in np.random.default_rng(0).normal(size=(3, 5, 2, 4)):
        total = agg(x)
        assert total.shape == (2, 4)
        np.testing.assert_allclose(total, x.sum(axis=0), atol=5 * 2.0**-33, rtol=0)
    assert SecAgg(5)(np.ones(5)).tolist() == 5.0
    assert SecAgg(5)(np.ones((5, 0, 7))).shape == (0, 7)


@pytest.mark.parametrize(("clients", "dropouts"), [(4, 2), (5, 3), (6, 3)])
def test_any_t_minus_1_dropouts_are_survived(clients, dropouts):
    agg = SecAgg(clients, dropouts)
    x = np.random.default_rng(1).normal(size=(clients, 2))
    for gone in itertools.combinations(range(clients), dropouts - 1):
        for cut in range(dropouts):
            dropped, silent = gone[:cut], gone[cut:]
            total = agg.sum(x, dropped=dropped, silent=silent)
            expected = np.delete(x, dropped, axis=0).sum(axis=0)
            np.testing.assert_allclose(total, expected, atol=clients * 2.0**-33, rtol=0)


@pytest.mark.parametrize(("clients", "dropouts"), [(4, 1), (5, 3)])
def test_t_dropouts_are_refused(clients, dropouts):
    agg = SecAgg(clients, dropouts)
    for gone in itertools.combinations(range(clients), dropouts):
        for cut in range(dropouts + 1):
            step = "masked input" if cut == dropouts else "unmask"
            sentence = f"{dropouts} of {clients} clients dropped out by '{step}' and at most {dropouts - 1}"
            with pytest.raises(FairFLError, match=sentence):
                agg.sum(np.ones((clients, 2)), dropped=gone[:cut], silent=gone[cut:])
    assert agg.sum(np.ones(clients)) == clients  # the next sum is not harmed


def test_a_client_that_never_shares_its_keys_is_a_dropout_too():
    agg = SecAgg(5, dropouts=3)
    server = Server(agg, [])
    clients = [Client(k, agg) for k in range(5)]
    keys = server.advertise_keys({c.k: c.advertise_keys() for c in clients[:4]})
    sealed = server.share_keys({c.k: c.share_keys(keys) for c in clients[1:4]})
    y = {c.k: c.masked_input([float(c.k)], sealed[c.k]) for c in clients[1:4]}
    survivors, dropped = server.masked_input(y)
    assert (survivors, dropped) == ([1, 2, 3], [])
    assert server.unmask({c.k: c.unmask(survivors, dropped) for c in clients[1:4]}).tolist() == [6.0]
    with pytest.raises(FairFLError, match="3 of 5 clients dropped out by 'advertise keys'"):
        Server(agg, []).advertise_keys({c.k: c.advertise_keys() for c in clients[:2]})
    with pytest.raises(FairFLError, match="3 of 5 clients dropped out by 'share keys'"):
        Server(agg, []).share_keys({0: {}, 1: {}})


def test_terms():
    assert [SecAgg(5, t).threshold for t in (1, 2, 3)] == [5, 4, 3]
    assert all(2 * SecAgg(n, (n + 1) // 2).threshold > n for n in range(2, 30))
    for bad in (dict(clients=1), dict(clients=5, dropouts=0), dict(clients=5, dropouts=4)):
        with pytest.raises(FairFLError):
            SecAgg(**bad)
    with pytest.raises(FairFLError, match="from 0 to 52"):
        SecAgg(5, fraction_bits=53)
    with pytest.raises(FairFLError, match="each of the 5 clients"):
        SecAgg(5).sum(np.ones((4, 2)))
    with pytest.raises(FairFLError, match="by number, from 0 to 4"):
        SecAgg(5).sum(np.ones((5, 2)), dropped=[5])


def test_each_message_the_server_sees_is_uniform_and_not_so_without_masks(monkeypatch):
    x = np.random.default_rng(2).normal(size=(4, 2000))

    def messages_are_uniform() -> None:
        agg = SecAgg(4, dropouts=2, seed=3)
        agg.sum(x)
        for content in seen(agg, "masked input").values():
            assert_uniform(content)

    messages_are_uniform()
    monkeypatch.setattr(secagg, "prg", lambda seed, size: np.zeros(size, dtype=np.uint64))
    with pytest.raises(AssertionError):
        messages_are_uniform()


def test_encrypted_shares_are_uniform_and_not_so_without_encryption(monkeypatch):
    def shares_are_uniform() -> None:
        agg = SecAgg(6, dropouts=1, seed=4)
        content = b""
        for _ in range(3):
            agg.sum(np.zeros((6, 1)))
            content += b"".join(seen(agg, "share keys").values())
        assert_uniform(content)

    shares_are_uniform()
    monkeypatch.setattr(Client, "_seal", lambda self, j, text: text)
    monkeypatch.setattr(Client, "_open", lambda self, j, box: box)
    with pytest.raises(AssertionError):
        shares_are_uniform()


def test_a_message_is_new_at_each_sum_of_the_same_input():
    agg = SecAgg(3)
    x = np.ones((3, 4))
    contents = []
    for _ in range(2):
        agg.sum(x)
        contents.append([m.content for m in agg.transcript if m.what != "public channel key"])
    assert len(contents[0]) == len(contents[1]) == 3 * 2 + 3 * 2 + 3 + 3 * 3
    assert not set(contents[0]) & set(contents[1])


def test_a_late_message_stays_hidden_behind_its_seed(monkeypatch):
    x = np.random.default_rng(5).normal(size=(4, 2000))
    agg = SecAgg(4, dropouts=2, seed=6)
    clients = agg.members

    def late_message_without_pairwise_masks() -> bytes:
        keys = {c.k: c.advertise_keys() for c in clients}
        sealed = {c.k: c.share_keys(keys) for c in clients}
        y = {c.k: c.masked_input(x[c.k], {j: sealed[j][c.k] for j in keys if j != c.k}) for c in clients}
        answers = {k: clients[k].unmask([1, 2, 3], [0]) for k in (1, 2, 3)}
        key = reconstruct({k + 1: answers[k][0] for k in answers}).to_bytes(32, "big")
        for j in (1, 2, 3):
            y[0] -= secagg.pairwise_mask(key, 0, keys[j].mask, j, 2000)
        return y[0].tobytes()

    def no_self_mask(seed: bytes, size: int) -> np.ndarray:
        return np.zeros(size, np.uint64) if seed in {c.seed for c in clients} else prg(seed, size)

    assert_uniform(late_message_without_pairwise_masks())
    monkeypatch.setattr(secagg, "prg", no_self_mask)
    bare = late_message_without_pairwise_masks()
    assert bare == encode(x[0], 32, 4).tobytes()
    with pytest.raises(AssertionError):
        assert_uniform(bare)


def test_a_later_dropout_does_not_open_an_earlier_message():
    agg = SecAgg(4, dropouts=2)
    agg.sum(np.ones((4, 1)))
    first_key, first_seed = agg.members[0].mask_key, agg.members[0].seed
    agg.sum(np.ones((4, 1)), dropped=[0])
    messages = [m for m in agg.transcript if m.what == "share of the mask key of client 0"]
    shares = {m.sender + 1: int.from_bytes(m.content, "big") for m in messages}
    assert reconstruct(shares).to_bytes(32, "big") == agg.members[0].mask_key != first_key
    assert agg.members[0].seed != first_seed
    assert not [m for m in agg.transcript if m.what == "share of the seed of client 0"]


def test_transcript_holds_the_latest_sum_and_neither_values_nor_secrets():
    agg = SecAgg(3, dropouts=2, seed=7)
    x = np.array([[1.0], [2.0], [3.0]])
    agg.sum(x, dropped=[2])
    steps = Counter(m.step for m in agg.transcript)
    assert steps == {"advertise keys": 9, "share keys": 6, "masked input": 2, "unmask": 6}
    content = b"".join(m.content for m in agg.transcript)
    for client, value in zip(agg.members, x, strict=True):
        assert encode(value, 32, 3).tobytes() not in content
        for secret in (client.channel_key, client.mask_key, client.seed):
            assert secret not in content


def test_a_seed_repeats_every_byte_and_no_seed_repeats_none():
    transcripts = []
    for seed in (8, 8, 9, None, None):
        agg = SecAgg(3, seed=seed)
        agg.sum(np.ones((3, 2)))
        transcripts.append(list(agg.transcript))
    assert transcripts[0] == transcripts[1]
    for one, other in itertools.combinations(transcripts[1:], 2):
        assert not {m.content for m in one} & {m.content for m in other}


def test_a_client_refuses_to_reveal_both_secrets():
    agg = SecAgg(5, dropouts=3)
    _, clients, _ = play(agg, np.ones((5, 2)))
    with pytest.raises(FairFLError, match="Client 0 refuses to reveal both secrets of client 4"):
        clients[0].unmask([0, 1, 2, 3, 4], [4])
    clients[0].unmask([0, 1, 2, 3], [4])
    with pytest.raises(FairFLError, match="Client 0 refuses 'unmask' after 'unmask'"):
        clients[0].unmask([0, 1, 2, 3, 4], [])


def test_a_client_refuses_what_would_weaken_its_masks():
    agg = SecAgg(5, dropouts=3)
    _, clients, sealed = play(agg, np.ones((5, 2)), until="masked input")
    with pytest.raises(FairFLError, match="refuses 'unmask' after 'share keys'"):
        clients[0].unmask([0], [])
    clients[1].masked_input([1.0], sealed[1])
    with pytest.raises(FairFLError, match="refuses 'masked input' after 'masked input'"):
        clients[1].masked_input([2.0], sealed[1])
    with pytest.raises(FairFLError, match="3 of 5 clients dropped out by 'unmask'"):
        clients[1].unmask([0, 1], [2, 3, 4])
    with pytest.raises(FairFLError, match="did not share keys"):
        clients[1].unmask([0, 2, 3, 4], [1])
    with pytest.raises(FairFLError, match="names client 7: name clients by number, from 0 to 4"):
        clients[1].unmask([0, 1, 2, 7], [])
    with pytest.raises(FairFLError, match="4 of 5 clients dropped out by 'unmask'"):
        clients[1].unmask([1, 1, 1, 1, 1], [])
    with pytest.raises(FairFLError, match="3 of 5 clients dropped out by 'masked input'"):
        clients[2].masked_input([1.0], {0: sealed[2][0]})
    with pytest.raises(FairFLError, match="did not share keys"):
        Client(0, agg).unmask([0, 1, 2], [])


@pytest.mark.parametrize("place", [0, 11, 12, 100, -1])
def test_an_altered_ciphertext_is_detected(place):
    _, clients, sealed = play(SecAgg(3), np.ones((3, 1)), until="masked input")
    box = bytearray(sealed[1][0])
    box[place] ^= 1
    with pytest.raises(FairFLError, match="Client 0's shares for client 1 were altered"):
        clients[1].masked_input([1.0], {0: bytes(box), 2: sealed[1][2]})


def test_a_ciphertext_of_an_earlier_sum_or_another_sender_is_detected():
    agg = SecAgg(3, seed=10)
    server = Server(agg, [])
    boxes = []
    for _ in range(2):
        keys = server.advertise_keys({c.k: c.advertise_keys() for c in agg.members})
        boxes.append(server.share_keys({c.k: c.share_keys(keys) for c in agg.members}))
    old, new = boxes
    with pytest.raises(FairFLError, match="altered"):
        agg.members[1].masked_input([1.0], {0: old[1][0], 2: new[1][2]})
    with pytest.raises(FairFLError, match="altered"):
        agg.members[2].masked_input([1.0], {0: new[2][1], 1: new[2][0]})


@pytest.mark.parametrize("of", [0, 3])
def test_a_wrong_share_is_detected(of):
    agg = SecAgg(4, dropouts=2)
    server, clients, sealed = play(agg, np.ones((4, 1)), until="masked input")
    y = {c.k: c.masked_input([1.0], sealed[c.k]) for c in clients[:3]}
    survivors, dropped = server.masked_input(y)
    answers = {c.k: c.unmask(survivors, dropped) for c in clients[:3]}
    assert server.unmask(answers).tolist() == [3.0]
    answers[1][of] += 1
    with pytest.raises(FairFLError, match=f"share of client {of}'s secret is wrong"):
        server.unmask(answers)


@pytest.mark.parametrize("gone", [(), (3,)])
@pytest.mark.parametrize("liars", [(0,), (4,), (0, 1), (1, 4)])
def test_wrong_shares_are_left_out_and_their_givers_named(liars, gone):
    # 3 of 5 (or of 4) shares suffice, so that two (or one) may be wrong; all of a liar's shares are.
    agg = SecAgg(5, dropouts=3)
    server, survivors, answers = answered(agg, np.arange(5.0)[:, None], gone)
    for liar in liars:
        answers[liar] = {j: (value + 7 ** (99 + liar)) % secagg.PRIME for j, value in answers[liar].items()}
    if len(answers) - len(liars) < agg.threshold:
        with pytest.raises(FairFLError, match=r"A share of client \d's secret is wrong, no 3 right of 4 were found"):
            server.unmask(answers)
    else:
        assert server.unmask(answers).tolist() == [float(sum(survivors))]
        assert server.wrong == liars
    assert answered(agg, np.ones((5, 1)), gone)[0].wrong == ()


def test_with_just_threshold_shares_a_wrong_one_is_not_mended():
    server, _, answers = answered(SecAgg(5, dropouts=3), np.ones((5, 1)))
    three = {k: answers[k] for k in (0, 1, 2)}
    assert server.unmask(three).tolist() == [5.0]
    three[1][4] += 1
    with pytest.raises(FairFLError, match="A share of client 4's secret is wrong, no 3 right of 3 were found"):
        server.unmask(three)
    assert server.unmask(three | {3: answers[3]}).tolist() == [5.0]
    assert server.wrong == (1,)


def test_a_share_that_changes_the_secret_beyond_its_32_bytes_is_wrong():
    # Client 1's Lagrange factor at 0 scales its error to exactly 2^256, which the lower 32 bytes do not show.
    server, _, answers = answered(SecAgg(3, dropouts=1), np.ones((3, 1)))
    factor = 1 * 3 * pow((1 - 2) * (3 - 2), -1, secagg.PRIME)
    answers[1][0] = (answers[1][0] + 2**256 * pow(factor, -1, secagg.PRIME)) % secagg.PRIME
    with pytest.raises(FairFLError, match="share of client 0's secret is wrong"):
        server.unmask(answers)


def test_the_search_for_right_shares_is_bounded(monkeypatch):
    # Of C(14, 9) = 2002 choices, more than TRIES, C(12, 9) = 220 leave out two liars and none leaves out six.
    server, _, answers = answered(SecAgg(14, dropouts=6), np.ones((14, 1)))
    # Large errors, since small ones of several liars may cancel at 0.
    lies = {k: {j: (value + pow(7, 999 + k, secagg.PRIME)) % secagg.PRIME for j, value in answers[k].items()} for k in answers}
    assert server.unmask(answers | {k: lies[k] for k in (0, 13)}).tolist() == [14.0]
    assert server.wrong == (0, 13)
    calls = []
    monkeypatch.setattr(secagg, "reconstruct", lambda shares: calls.append(shares) or reconstruct(shares))
    with pytest.raises(FairFLError, match="no 9 right of 14 were found"):
        server.unmask(answers | {k: lies[k] for k in range(6)})
    assert len(calls) == secagg.TRIES


MALFORMED = {
    "no mapping": lambda answer: [*answer.values()],
    "none": lambda answer: None,
    "float": lambda answer: answer | {0: 1.0},
    "bool": lambda answer: answer | {0: True},
    "text": lambda answer: answer | {0: "1"},
    "negative": lambda answer: answer | {0: -1},
    "the prime": lambda answer: answer | {0: secagg.PRIME},
    "huge": lambda answer: answer | {0: 10**5000},
    "missing": lambda answer: {j: value for j, value in answer.items() if j},
    "extra": lambda answer: answer | {-1: 1},
}


@pytest.mark.parametrize("spoil", MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_answer_counts_as_silence(spoil):
    server, _, answers = answered(SecAgg(4, dropouts=2), np.ones((4, 1)))
    answers[2] = spoil(answers[2])
    assert server.unmask(answers).tolist() == [4.0]
    assert server.wrong == (2,)
    answers[1] = spoil(answers[1])
    with pytest.raises(FairFLError, match=r"by 'unmask' \(set aside as malformed or out of turn: 1, 2\) and at most 1"):
        server.unmask(answers)


def test_the_answer_of_a_client_declared_dropped_is_not_used():
    server, _, answers = answered(SecAgg(4, dropouts=2), np.ones((4, 1)), gone=(3,))
    assert server.unmask(answers | {3: answers[0]}).tolist() == [3.0]
    assert server.wrong == (3,)


@pytest.mark.parametrize("scale", [1, 2**32])
def test_words_typed_int64_are_the_same_bits(scale):
    # Reduced as numbers, words of both types become float64, and 1 + 2 + 3 would be 5.99999984.
    x = np.array([[1.0], [2.0], [-3.5]]) * scale / 2**8
    agg = SecAgg(3)
    server, clients, sealed = play(agg, x, until="masked input")
    y = {c.k: c.masked_input(x[c.k], sealed[c.k]) for c in clients}
    survivors, dropped = server.masked_input({k: words.view(np.int64) if k else words for k, words in y.items()})
    assert server.total.dtype == np.uint64
    assert server.unmask({c.k: c.unmask(survivors, dropped) for c in clients}).tolist() == x.sum(axis=0).tolist()
    assert [m.content for m in server.transcript if m.step == "masked input"] == [words.tobytes() for words in y.values()]


NOT_WORDS = {
    "float64": np.zeros(1),
    "uint32": np.zeros(1, np.uint32),
    "big-endian": np.zeros(1, ">u8"),
    "bool": np.zeros(1, bool),
    "object": np.zeros(1, object),
    "matrix": np.zeros((1, 1), np.uint64),
    "scalar": np.uint64(0),
    "0-d": np.array(0, np.uint64),
    "list": [0],
    "bytes": bytes(8),
    "none": None,
}


@pytest.mark.parametrize("bad", NOT_WORDS.values(), ids=NOT_WORDS)
def test_what_is_no_vector_of_words_is_refused(bad):
    server, clients, sealed = play(SecAgg(3), np.ones((3, 1)), until="masked input")
    y = {c.k: c.masked_input([1.0], sealed[c.k]) for c in clients}
    with pytest.raises(FairFLError, match="Client 1's masked input is not a vector of 64-bit integers"):
        server.masked_input(y | {1: bad})


def test_a_deviating_client_shifts_the_sum_and_nothing_notices():
    # The module states it: no proof ties a masked vector to an honest value.
    agg, x = SecAgg(4, dropouts=2), np.arange(4.0)[:, None]
    server, clients, sealed = play(agg, x, until="masked input")
    y = {c.k: c.masked_input(x[c.k], sealed[c.k]) for c in clients}
    y[2] = y[2] + encode([1000.0], agg.fraction_bits, agg.clients)
    survivors, dropped = server.masked_input(y)
    total = server.unmask({c.k: c.unmask(survivors, dropped) for c in clients})
    assert total.tolist() == [x.sum() + 1000.0]
    assert server.wrong == ()
    said = " ".join((secagg.__doc__ or "").split())
    assert "a client that deviates can spoil it unseen" in said and "there is no range proof" in said


LOW_ORDER = (
    0,
    1,
    2**255 - 20,
    2**255 - 19,
    2**255 - 18,
    325606250916557431795983626356110631294008115727848805560023387167927233504,
    39382357235489614581723060781553021112529911719440698176882885853963445705823,
)
BAD_KEYS = [bytes(31), bytes(33), b"", "k" * 32, None, 7, bytearray(32), *(u.to_bytes(32, "little") for u in LOW_ORDER)]


@pytest.mark.parametrize("bad", BAD_KEYS)
@pytest.mark.parametrize("name", ["channel", "mask"])
def test_malformed_and_low_order_keys_are_refused(name, bad):
    agg = SecAgg(3)
    clients = [Client(k, agg) for k in range(3)]
    keys = {c.k: c.advertise_keys() for c in clients}
    keys[2] = replace(keys[2], **{name: bad})
    for refuse in (Server(agg, []).advertise_keys, clients[0].share_keys):
        with pytest.raises(FairFLError, match="Client 2's keys are malformed or of low order"):
            refuse(keys)


def test_what_is_no_keys_or_not_ones_own_is_refused():
    agg = SecAgg(3)
    clients = [Client(k, agg) for k in range(3)]
    keys = {c.k: c.advertise_keys() for c in clients}
    for bad in (None, b"", (bytes(32),) * 3, replace(keys[1], commitment=bytes(31)), replace(keys[1], commitment="")):
        with pytest.raises(FairFLError, match="Client 1's keys are malformed"):
            clients[0].share_keys(keys | {1: bad})
    with pytest.raises(FairFLError, match="its own keys came back altered"):
        clients[0].share_keys(keys | {0: keys[1]})
    assert set(clients[0].share_keys(keys)) == {1, 2}


def test_boxes_of_an_earlier_sum_do_not_open_after_a_refusal():
    # A client that kept the keys of the last sum would open its boxes again and could give its other shares away.
    agg = SecAgg(3)
    server, clients, sealed = play(agg, np.ones((3, 1)), until="masked input")
    clients[0].advertise_keys()
    with pytest.raises(FairFLError, match="its own keys came back altered"):
        clients[0].share_keys(server.keys)
    with pytest.raises(FairFLError, match="refuses 'masked input' after 'advertise keys'"):
        clients[0].masked_input([1.0], sealed[0])


@pytest.mark.parametrize("bad", [b"", bytes(11), bytes(12), bytes(160), bytes(161), None, 5, "b" * 160, bytearray(160)])
def test_malformed_boxes_are_refused(bad):
    server, clients, sealed = play(SecAgg(3), np.ones((3, 1)), until="masked input")
    with pytest.raises(FairFLError, match="Client 0's shares for client 1 were altered or are malformed"):
        clients[1].masked_input([1.0], sealed[1] | {0: bad})


def test_a_box_that_holds_no_two_shares_is_laid_at_its_senders_door():
    # Otherwise the receiver would pass a share beyond the field on and count as malformed itself.
    for text in (b"", bytes(131), bytes(133), b"\xff" * 132, bytes(66) + secagg.PRIME.to_bytes(66, "big")):
        _, clients, sealed = play(SecAgg(3), np.ones((3, 1)), until="masked input")
        with pytest.raises(FairFLError, match="Client 0's shares for client 1 were altered or are malformed"):
            clients[1].masked_input([1.0], sealed[1] | {0: clients[0]._seal(1, text)})


def test_boxes_for_the_wrong_clients_are_refused():
    agg = SecAgg(4, dropouts=2)
    clients = [Client(k, agg) for k in range(4)]
    server = Server(agg, [])
    keys = server.advertise_keys({c.k: c.advertise_keys() for c in clients[:3]})
    sealed = {c.k: c.share_keys(keys) for c in clients[:3]}
    box = sealed[0][1]
    for bad in ({1: box}, {1: box, 2: box, 3: box}, {0: box, 1: box, 2: box}, {1: box, 2: None}, {1: box, 2: "b"}):
        with pytest.raises(FairFLError, match="Client 0 did not send bytes to each other client with keys"):
            server.share_keys(sealed | {0: bad})
    with pytest.raises(FairFLError, match="Client 3 did not send bytes"):
        server.share_keys(sealed | {3: {0: box, 1: box, 2: box}})
    with pytest.raises(FairFLError, match="'share keys of client 0' takes a mapping"):
        server.share_keys(sealed | {0: [box, box]})
    received = server.share_keys(sealed)
    with pytest.raises(FairFLError, match="Client 0 refuses shares from client 3, which had no keys"):
        clients[0].masked_input([1.0], received[0] | {3: box})
    with pytest.raises(FairFLError, match="Client 1 refuses shares from client 1"):
        clients[1].masked_input([1.0], received[1] | {1: box})
    with pytest.raises(FairFLError, match="Client 3 sent a masked vector and shared no keys"):
        server.masked_input(dict.fromkeys(range(4), np.zeros(1, np.uint64)))


STRANGE_IDS = [-1, 3, 2**64, 10**5000, 1.0, True, "1", None, (1,), secagg.PRIME - 1]


@pytest.mark.parametrize("bad", STRANGE_IDS, ids=lambda bad: type(bad).__name__)
def test_ids_are_whole_numbers_below_the_number_of_clients(bad):
    agg = SecAgg(3)
    sentence = "name clients by number, from 0 to 2"
    server, clients, sealed = play(agg, np.ones((3, 1)), until="masked input")
    new = [Client(k, agg) for k in range(3)]
    keys = {c.k: c.advertise_keys() for c in new}
    vector = np.zeros(1, np.uint64)

    def refuses(step, *messages):
        with pytest.raises(FairFLError, match=sentence):
            step(*messages)

    # True and 1.0 equal 1, so that they take its place; the others come on top.
    def among(honest, message):
        return {k: value for k, value in honest.items() if k != bad} | {bad: message}

    refuses(Client, bad, agg)
    refuses(new[0].share_keys, among(keys, keys[1]))
    refuses(Server(agg, []).advertise_keys, among(keys, keys[1]))
    boxes = {c.k: c.share_keys(keys) for c in new}
    refuses(server.share_keys, among(boxes, boxes[1]))
    refuses(server.share_keys, boxes | {0: among(boxes[0], b"")})
    refuses(clients[0].masked_input, [1.0], among(sealed[0], sealed[0][1]))
    refuses(server.masked_input, among(dict.fromkeys(range(3), vector), vector))
    server, clients, _ = play(agg, np.ones((3, 1)))
    refuses(clients[0].unmask, [0, bad, 2], [])
    refuses(clients[0].unmask, [0, 1, 2], [bad])
    answers = {c.k: c.unmask([0, 1, 2], []) for c in clients}
    refuses(server.unmask, among(answers, answers[1]))
    refuses(agg.sum, np.ones(3), [bad])
    refuses(agg.sum, np.ones(3), [], [bad])


def test_numpy_integers_are_numbers():
    agg = SecAgg(np.uint8(5), np.int64(3), np.int8(32))
    assert agg == SecAgg(5, 3)
    assert agg.sum(np.ones(5), dropped=np.array([1]), silent=np.array([2])) == 4
    assert share(np.int64(3), np.array([1, 2]), np.int64(1), os.urandom) == {1: 3, 2: 3}


@pytest.mark.parametrize("points", [[0, 1], [11, 1], [-11, 1], [1, 1], [1, 12], [2, -9], [1.0, 2], ["1", 2], [True, 2], 3, None])
def test_points_that_give_the_secret_away_or_coincide_are_refused(points):
    with pytest.raises(FairFLError, match="points that differ modulo the prime, and none that is 0"):
        share(5, points, 1, os.urandom, prime=11)
    if isinstance(points, list) and len({*points}) == 2:
        with pytest.raises(FairFLError, match="points that differ modulo the prime, and none that is 0"):
            reconstruct(dict.fromkeys(points, 3), prime=11)


def test_shamir_refuses_what_is_no_sharing():
    for secret, threshold in ((-1, 1), (11, 1), (1.0, 1), (None, 1), (True, 1), (5, 0), (5, 3), (5, 1.0), (5, None)):
        with pytest.raises(FairFLError, match="Share a whole number below the prime"):
            share(secret, [1, 2], threshold, os.urandom, prime=11)
    for value in (-1, 11, 1.0, True, "1", None, 10**5000):
        with pytest.raises(FairFLError, match="each share a whole number from 0 to below the prime"):
            reconstruct({1: 1, 2: value}, prime=11)
    for shares in ({}, [], [1, 2]):
        with pytest.raises(FairFLError, match="Reconstruct from {point: share}"):
            reconstruct(shares)
    for prime in (0, 1, -7, 7.0, None, True, "7"):
        with pytest.raises(FairFLError, match="modulo a prime"):
            reconstruct({1: 0, 2: 0}, prime=prime)
    with pytest.raises(FairFLError, match="modulo a prime"):
        reconstruct({1: 0, 3: 0}, prime=12)


def test_the_polynomial_at_any_point_by_hand():
    # f(x) = 5 + 3 x + 2 x^2 mod 11: f(4) = 49 = 5 and f(7) = 124 = 3.
    shares = {1: 10, 2: 8, 3: 10}
    assert [reconstruct(shares, prime=11, at=x) for x in (0, 1, 4, 7)] == [5, 10, 5, 3]


@pytest.mark.parametrize("x", ["a", None, [1j], np.array([1j]), [[1], [1, 2]], [None], {}, [10**400], [b"a"], object()])
def test_encode_refuses_what_is_no_real_vector(x):
    with pytest.raises(FairFLError):
        encode(x, 32, 3)
    with pytest.raises(FairFLError):
        SecAgg(3).sum(x)
    with pytest.raises(FairFLError):
        SecAgg(3)(x)


def test_messages_without_a_client_axis_are_refused():
    for x in (1.0, np.ones(2), np.ones((1, 3)), np.ones((2, 3, 4))):
        with pytest.raises(FairFLError, match="Give one vector for each of the 3 clients"):
            SecAgg(3)(x)
    assert SecAgg(3).sum(np.ones((3, 0))).shape == (0,)


unprintable = st.integers(5000, 5001).map(lambda digits: -(10**digits) if digits % 2 else 10**digits)
anything = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 7),
    st.integers(),
    st.sampled_from([2**64, secagg.PRIME - 1, secagg.PRIME, 2**521]),
    unprintable,
    st.floats(),
    st.text(max_size=3),
    st.sampled_from([0, 11, 12, 31, 32, 33, 66, 132, 160]).map(bytes),
    st.binary(max_size=40),
    st.binary(min_size=32, max_size=32),
    st.sampled_from(["u8", "i8", ">i8", "f8", "u4", "c16", "O", "?", "U2"]).map(lambda kind: np.zeros(2, kind)),
    st.sampled_from([np.array(3), np.zeros((2, 2), np.uint64), np.uint64(1), np.int64(-1), np.float32(2), object()]),
    st.builds(Keys, *[st.one_of(st.binary(min_size=31, max_size=33), st.none(), st.just(bytes(32)))] * 3),
)
ids = st.one_of(st.integers(-2, 5), st.sampled_from([1.0, True, "1", None, (), 2**64, np.int64(1)]), unprintable)
hostile = st.recursive(
    anything,
    lambda each: st.one_of(st.lists(each, max_size=4), st.dictionaries(ids, each, max_size=4)),
    max_leaves=8,
)


def spoiled(data: st.DataObject, honest: Any) -> Any:
    """A message as it is, replaced, or with some entries left out, replaced or added, at any depth."""
    how = data.draw(st.sampled_from(["honest", "replaced", "entries"]))
    if how == "entries" and isinstance(honest, dict):
        kept = {k: v for k, v in honest.items() if data.draw(st.integers(0, 5))}
        kept |= {k: spoiled(data, v) for k, v in kept.items() if not data.draw(st.integers(0, 2))}
        return kept | data.draw(st.dictionaries(ids, hostile, max_size=1))
    return data.draw(hostile) if how == "replaced" else honest


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_hostile_messages_meet_one_kind_of_error(data):
    agg = SecAgg(4, dropouts=2, seed=1)
    server, clients = Server(agg, []), agg.members
    x = np.ones((4, 2))

    def step(method, honest, *messages):
        """The answer to a spoiled message, to the honest one if that is refused, or else this one."""
        for attempt in (tuple(spoiled(data, message) for message in messages), messages):
            with suppress(FairFLError):
                return method(*attempt)
        return honest

    advertised = {c.k: c.advertise_keys() for c in clients}
    keys = step(server.advertise_keys, advertised, advertised)
    boxes = {c.k: step(c.share_keys, {}, keys) for c in clients}
    sealed = step(server.share_keys, {}, boxes)
    y = {c.k: step(c.masked_input, x[0].view(np.uint64), x[c.k], sealed.get(c.k, {})) for c in clients}
    survivors, dropped = step(server.masked_input, ([0, 1, 2, 3], []), y)
    answers = {c.k: step(c.unmask, {}, survivors, dropped) for c in clients}
    step(server.unmask, None, answers)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_hostile_arguments_meet_one_kind_of_error(data):
    agg = SecAgg(3)
    server, client = Server(agg, []), Client(0, agg)
    calls = [
        (lambda *a: share(a[0], a[1], a[2], os.urandom, a[3]), 5, [1, 2, 3], 2, 11),
        (reconstruct, {1: 3, 2: 4}, 11, 0),
        (encode, [1.0, 2.0], 8, 3),
        (SecAgg, 3, 1, 32, 5),
        (lambda k: Client(k, agg), 0),
        (agg.sum, np.ones((3, 1)), [], []),
        (agg, np.ones((1, 3, 1))),
        (partial(agg.ids, "step"), [0, 1]),
        (partial(agg.by_client, "step"), {0: None}),
        (partial(agg.keys, "step"), {0: client.advertise_keys()}),
        (partial(agg.require, "step"), [0, 1, 2]),
        (server.advertise_keys, {}),
        (server.share_keys, {}),
        (server.masked_input, {}),
        (server.unmask, {}),
        (Client(0, agg).share_keys, {}),
        (Client(0, agg).masked_input, [1.0], {}),
        (Client(0, agg).unmask, [0], [1]),
    ]
    for method, *arguments in calls:
        with suppress(FairFLError):
            method(*(spoiled(data, argument) for argument in arguments))


def test_vectors_of_different_length_are_refused():
    server, clients, sealed = play(SecAgg(3), np.ones((3, 1)), until="masked input")
    y = {c.k: c.masked_input(np.ones(1 + (c.k == 2)), sealed[c.k]) for c in clients}
    with pytest.raises(FairFLError, match="same length"):
        server.masked_input(y)


@given(st.binary(min_size=32, max_size=32), st.binary(min_size=32, max_size=32))
def test_key_agreement_is_symmetric(a, b):
    assert agree(a, public(b), "test") == agree(b, public(a), "test")
    assert agree(a, public(b), "test") != agree(a, public(b), "other")


def test_key_agreement_of_rfc_7748():
    # Section 6.1: Alice's and Bob's keys and the secret they agree on.
    alice = bytes.fromhex("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a")
    bob = bytes.fromhex("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb")
    secret = bytes.fromhex("4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742")
    assert public(alice).hex() == "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a"
    assert public(bob).hex() == "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f"
    assert agree(alice, public(bob), "test") == secagg.derive(secret, "test")


def test_prg_is_the_chacha20_key_stream_of_rfc_8439():
    # Appendix A.1, vector 1: key, counter and nonce are zero.
    assert prg(bytes(32), 2).tobytes().hex() == "76b8e0ada0f13d90405d6ae55386bd28"
    assert prg(bytes(32), 5)[:2].tolist() == prg(bytes(32), 2).tolist()


def test_pairwise_masks_cancel():
    private = [bytes([k + 1]) * 32 for k in range(5)]
    pairs = itertools.permutations(range(5), 2)
    masks = [secagg.pairwise_mask(private[k], k, public(private[j]), j, 10) for k, j in pairs]
    assert all(mask.any() for mask in masks)
    assert not np.sum(masks, axis=0, dtype=np.uint64).any()


@given(st.data(), st.integers(0, 2**256 - 1), st.integers(1, 6), st.integers(0, 3))
def test_any_threshold_shares_reconstruct(data, secret, threshold, more):
    points = range(1, threshold + more + 1)
    shares = share(secret, points, threshold, os.urandom)
    chosen = data.draw(st.permutations(points))[:threshold]
    assert reconstruct({i: shares[i] for i in chosen}) == secret
    assert reconstruct(shares) == secret


def test_fewer_shares_than_the_threshold_fit_every_secret_equally():
    # All polynomials of degree <= 2 over GF(7): any two shares occur exactly once with each secret.
    prime, threshold = 7, 3
    fits: Counter[tuple[tuple[int, ...], tuple[int, ...], int]] = Counter()
    for secret, *coefficients in itertools.product(range(prime), repeat=threshold):
        shares = share(secret, range(1, 6), threshold, drawn(*coefficients), prime)
        for two in itertools.combinations(shares, threshold - 1):
            fits[two, tuple(shares[i] for i in two), secret] += 1
        for three in itertools.combinations(shares, threshold):
            assert reconstruct({i: shares[i] for i in three}, prime) == secret
    assert len(fits) == 10 * prime**2 * prime
    assert set(fits.values()) == {1}


def test_shamir_by_hand():
    # f(x) = 5 + 3 x + 2 x^2 mod 11: f(1) = 10, f(2) = 19 = 8, f(3) = 32 = 10; drawn from the highest power.
    shares = share(5, [1, 2, 3], 3, drawn(2, 3), prime=11)
    assert shares == {1: 10, 2: 8, 3: 10}
    assert reconstruct(shares, prime=11) == 5


def test_the_field_is_prime_and_holds_a_32_byte_secret():
    # Lucas-Lehmer for 2^521 - 1.
    p, s = secagg.PRIME, 4
    assert p == 2**521 - 1 > 2**256
    for _ in range(521 - 2):
        s = (s * s - 2) % p
    assert s == 0
    assert (p - 1).to_bytes(secagg.SHARE_BYTES, "big")


def test_keys_are_advertised_as_public():
    client = Client(0, SecAgg(3))
    keys = client.advertise_keys()
    assert keys == Keys(public(client.channel_key), public(client.mask_key), secagg.commit(client.seed))


def test_a_sum_does_no_more_than_it_must(monkeypatch):
    """Channels are agreed on once. A sum takes a key and a stretch of random words per pair of clients, however long it is."""
    done = dict.fromkeys(("agree", "prg", "reconstruct"), 0)

    def counted(name, usual):
        def call(*given, **named):
            done[name] += 1
            return usual(*given, **named)

        return call

    for name in done:
        monkeypatch.setattr(secagg, name, counted(name, getattr(secagg, name)))
    agg = SecAgg(5, dropouts=2)
    for _ in range(6):
        agg(np.ones((5, 13)))
    # Each key is tried once. Beside the masks of pairs a client has one of its own, which the server makes again. Of 5 shares
    # of its seed 4 are enough, and the fifth is compared.
    assert done == {"agree": 5 * 4 + 5 + 6 * (5 * 4 + 5), "prg": 6 * (5 * 5 + 5), "reconstruct": 6 * (5 + 5)}
    done |= dict.fromkeys(done, 0)
    SecAgg(10, dropouts=3).sum(np.ones((10, 100_000)), dropped=[4], silent=[5])
    assert done == {"agree": 10 * 9 + 10 + 9 * 9 + 10 + 9, "prg": 9 * 10 + 9 + 9, "reconstruct": 10}
