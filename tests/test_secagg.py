"""Secure aggregation: exact sums, dropouts, what the server can and cannot see."""

from __future__ import annotations

import itertools
import os
import time
from collections import Counter
from fractions import Fraction

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


def test_aggregator_sums_over_clients_for_each_run():
    x = np.random.default_rng(0).normal(size=(3, 5, 2, 4))
    total = SecAgg(5, dropouts=2)(x)
    assert total.shape == (3, 2, 4)
    np.testing.assert_allclose(total, x.sum(axis=1), atol=5 * 2.0**-33, rtol=0)
    assert SecAgg(5)(np.ones((2, 5))).tolist() == [5.0, 5.0]
    assert SecAgg(5)(np.ones((0, 5, 7))).shape == (0, 7)


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
    with pytest.raises(FairFLError, match="did not share keys"):
        clients[1].unmask([0, 1, 2, 7], [])
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


def test_speed():
    agg, x = SecAgg(5, dropouts=2), np.ones((1, 5, 13))
    start = time.perf_counter()
    for _ in range(60):
        agg(x)
    assert time.perf_counter() - start < 5  # 20 rounds of FairFed; about 0.2 s when nothing else runs
    big = SecAgg(10, dropouts=3)
    start = time.perf_counter()
    big.sum(np.ones((10, 100_000)), dropped=[4], silent=[5])
    assert time.perf_counter() - start < 5
