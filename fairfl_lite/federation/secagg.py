"""Secure aggregation: a server learns the sum of its clients' vectors and not the vectors.

The double-masking protocol of Bonawitz et al. (2017), FairFed's SecAgg (Algorithm 1). Client k sends

    y_k = x_k + PRG(b_k) + sum_{j > k} PRG(s_kj) - sum_{j < k} PRG(s_kj)    mod 2^64

where only k and j can compute s_kj, whose masks cancel in the sum, and b_k is a seed of k's own. The mask
key behind s_kj and the seed b_k are shared among the clients by Shamir's scheme. If y_k arrived, the others
give their shares of b_k; if k dropped out, those of its mask key; never both, so that a message that comes
after its sender was declared dropped still hides behind b_k.

Mask keys and seeds are drawn anew for every sum; only the keys of the channels between clients last. A mask
key that served two sums would be unsafe: a client that survives the first (its seed is revealed) and drops
out of the second (its mask key is revealed) would have lost both secrets of its first message.

The promise: a server that follows the protocol and reads all it receives, even with threshold - 1 clients on
its side, learns no more than the sum over the other clients. The masks are pseudo-random, so the server must
be computationally bounded; FairFed's equation (9), zero mutual information, is the ideal. Left out are
signatures on the advertised keys, which are needed against a server that forges messages.

Not promised is a right sum: a client that deviates can spoil it unseen. It may send any masked vector, and nothing
proves that this one encodes an honest value; there is no range proof. It would take input validation by zero-knowledge
range proofs, which bound what a client can add, or robust aggregation, which needs more than a sum. What is malformed
is refused with its sender's number, and wrong shares are left out while enough right ones are there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import chain, combinations
from math import comb, inf, prod
from random import SystemRandom
from typing import Any, TypeGuard

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import ArrayLike, NDArray

from fairfl_lite.errors import FairFLError

Words = NDArray[np.uint64]
Random = Callable[[int], bytes]
Answers = Mapping[int, Mapping[int, int]]

STEPS = ("advertise keys", "share keys", "masked input", "unmask")
PRIME = 2**521 - 1
SHARE_BYTES = 66
TRIES = 1000
MOST_CLIENTS = 2**32


def _whole(value: object, low: float = -inf, high: float = inf) -> TypeGuard[int]:
    """Whether a value is a whole number, Python's or NumPy's, within [low, high]; a bool is none."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool) and low <= int(value) <= high


def _listed(given: Any) -> list[Any]:
    """The elements of what can be listed; [None], which every check refuses, for what cannot."""
    try:
        return list(given)
    except TypeError:
        return [None]


def _shown(value: object) -> str:
    """A value for a sentence: a small number as it is, else its type (Python does not print huge ints)."""
    return str(value) if _whole(value, -(2**64), 2**64) else f"something of type {type(value).__name__}"


def _reals(values: ArrayLike) -> NDArray[np.float64]:
    try:
        return np.asarray(values).astype(np.float64, casting="same_kind", copy=False)
    except (TypeError, ValueError, OverflowError):
        raise FairFLError("Secure aggregation takes real numbers: give vectors of numbers, all of one length.") from None


def derive(secret: bytes, purpose: str) -> bytes:
    """32 bytes HKDF-SHA256(secret, info=purpose); what is derived for different purposes is independent."""
    return HKDF(SHA256(), 32, salt=None, info=purpose.encode()).derive(secret)


def public(private: bytes) -> bytes:
    """The X25519 public key of a 32-byte private key."""
    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def agree(private: bytes, other_public: bytes, purpose: str) -> bytes:
    """The 32-byte secret of a pair: agree(a, public(b), purpose) = agree(b, public(a), purpose)."""
    key = X25519PrivateKey.from_private_bytes(private)
    return derive(key.exchange(X25519PublicKey.from_public_bytes(other_public)), purpose)


@lru_cache(4096)
def _sound(key: bytes) -> bool:
    """Whether bytes are an X25519 public key; one of low order, which makes every agreed secret 0, is none."""
    try:
        return bool(agree(bytes(32), key, "check"))
    except ValueError:
        return False


def commit(seed: bytes) -> bytes:
    """A fingerprint of a seed, independent of its masks; one rebuilt from a wrong share does not match."""
    return derive(seed, "commitment")


def prg(seed: bytes, size: int) -> Words:
    """`size` uniform words of Z_2^64: ChaCha20's key stream. A seed must mask one vector only."""
    return np.frombuffer(_stream(seed)(8 * size), dtype="<u8")


def _stream(seed: bytes) -> Random:
    cipher = Cipher(ChaCha20(seed, bytes(16)), mode=None).encryptor()
    return lambda size: cipher.update(bytes(size))


def encode(x: ArrayLike, fraction_bits: int, clients: int) -> Words:
    """round(x 2^f) in Z_2^64, negative numbers in two's complement; the error is at most 2^-(f+1) per value.

    Refuses NaN, infinities and |x| >= 2^(63-f) / clients: a sum of so large values could wrap around.
    """
    if not _whole(fraction_bits, 0, 52) or not _whole(clients, 1, MOST_CLIENTS):
        raise FairFLError("Encode with fraction_bits from 0 to 52 and a whole number of clients from 1 to 2^32.")
    limit = _limit(fraction_bits, clients)
    with np.errstate(over="ignore"):
        scaled = np.rint(_reals(x) * 2.0**fraction_bits)
    if not np.all(np.abs(scaled) < limit * 2.0**fraction_bits):
        raise FairFLError(
            f"Secure aggregation of {clients} clients with fraction_bits={fraction_bits} takes finite values "
            f"strictly between {-limit:.6g} and {limit:.6g}: rescale them or choose fewer fraction_bits."
        )
    return scaled.astype(np.int64).view(np.uint64)


def _limit(fraction_bits: int, clients: int) -> float:
    return 2.0 ** (63 - fraction_bits) / clients


def decode(total: Words, fraction_bits: int) -> NDArray[np.float64]:
    """The inverse of `encode` on a sum, rounded to float64 (exact while |sum| <= 2^(53-f))."""
    return total.view(np.int64) / 2.0**fraction_bits


def share(secret: int, points: Collection[int], threshold: int, random: Random, prime: int = PRIME) -> dict[int, int]:
    """Shamir: {point: f(point)}, f of degree threshold - 1 over GF(prime), random but for f(0) = secret.

    Points are distinct and not 0 modulo the prime, threshold or more. The 16 spare bytes per coefficient keep it
    within 2^-128 of uniform.
    """
    places = _points(points, prime)
    if not _whole(secret, 0, prime - 1) or not _whole(threshold, 1, len(places)):
        raise FairFLError("Share a whole number below the prime, with a threshold from 1 to the number of points.")
    size = (prime.bit_length() + 7) // 8 + 16
    coefficients = [int.from_bytes(random(size), "big") % prime for _ in range(threshold - 1)]
    shares = dict.fromkeys(places, 0)
    for point in places:
        for coefficient in [*coefficients, int(secret)]:
            shares[point] = (shares[point] * point + coefficient) % prime
    return shares


def reconstruct(shares: Mapping[int, int], prime: int = PRIME, at: int = 0) -> int:
    """f(at) = sum_i f(x_i) prod_{m != i} (x_m - at) / (x_m - x_i) from threshold or more shares {x_i: f(x_i)}.

    f(0), the default, is the secret. Points are distinct and not 0 modulo the prime.
    """
    points = _points(shares, prime)
    values = list(shares.values()) if isinstance(shares, Mapping) else []
    if not values or not all(_whole(value, 0, prime - 1) for value in values) or not _whole(at):
        raise FairFLError("Reconstruct from {point: share}, one or more, each share a whole number from 0 to below the prime.")
    result = 0
    for i, value in zip(points, values, strict=True):
        others = [m for m in points if m != i]
        try:
            inverse = pow(prod(m - i for m in others), -1, prime)
        except ValueError:
            raise FairFLError("Shares are reconstructed modulo a prime: choose one.") from None
        result += int(value) * prod(m - int(at) for m in others) * inverse
    return result % prime


def _points(given: Collection[int], prime: int) -> list[int]:
    points = _listed(given)
    if not isinstance(prime, int) or prime < 2:
        raise FairFLError(f"Shares live modulo a prime, not {_shown(prime)}: choose one.")
    if not all(map(_whole, points)) or len({0, *(int(point) % prime for point in points)}) <= len(points):
        raise FairFLError("Choose points that differ modulo the prime, and none that is 0, where the secret itself lies.")
    return [int(point) for point in points]


def pairwise_mask(private: bytes, k: int, other_public: bytes, j: int, size: int) -> Words:
    """What client k adds for client j: PRG(s_kj) if k < j and -PRG(s_kj) if k > j, so that the two cancel."""
    mask = prg(agree(private, other_public, "pairwise mask"), size)
    return mask if k < j else -mask


@dataclass(frozen=True)
class Keys:
    """What a client advertises: its public channel key and mask key, and a commitment to its seed."""

    channel: bytes
    mask: bytes
    commitment: bytes


@dataclass(frozen=True)
class Message:
    """One message the server sees: the protocol's step, the client that sent it, what it is, its bytes."""

    step: str
    sender: int
    what: str
    content: bytes


class Client:
    """Client k: its methods are the steps of a sum, each answered once, in order; the first begins anew."""

    def __init__(self, k: int, terms: SecAgg, random: Random = os.urandom) -> None:
        (self.k,) = terms.ids("client", [k])
        self.terms, self.random, self.step = terms, random, ""
        self.channel_key = random(32)
        self.channels: dict[bytes, ChaCha20Poly1305] = {}
        self.keys: dict[int, Keys] = {}
        self.shares: dict[int, bytes] = {}

    def advertise_keys(self) -> Keys:
        """Draw this sum's mask key and seed, and advertise what may be known of them."""
        self.step = "advertise keys"
        self.mask_key, self.seed = self.random(32), self.random(32)
        own = Keys(public(self.channel_key), public(self.mask_key), commit(self.seed))
        self.keys, self.shares = {self.k: own}, {}
        return own

    def share_keys(self, keys: Mapping[int, Keys]) -> dict[int, bytes]:
        """{j: j's shares of this client's mask key and seed, encrypted for j}, over those that advertised."""
        keys = self.terms.keys("share keys", keys)
        if keys.get(self.k) != self.keys.get(self.k):
            raise FairFLError(f"Client {self.k} refuses 'share keys', its own keys came back altered: start a new sum.")
        self._enter("share keys", keys)
        self.keys = keys
        both = dict.fromkeys(keys, b"")
        for secret in (self.mask_key, self.seed):
            points = [j + 1 for j in keys]
            shares = share(int.from_bytes(secret, "big"), points, self.terms.threshold, self.random)
            both = {j: both[j] + shares[j + 1].to_bytes(SHARE_BYTES, "big") for j in keys}
        self.shares[self.k] = both.pop(self.k)
        return {j: self._seal(j, text) for j, text in both.items()}

    def masked_input(self, x: ArrayLike, sealed: Mapping[int, bytes]) -> Words:
        """y_k for the vector x, masked against every client whose encrypted shares arrived."""
        sealed = self.terms.by_client("masked input", sealed)
        self._enter("masked input", {self.k, *sealed})
        if strange := set(sealed) - (set(self.keys) - {self.k}):
            raise FairFLError(f"Client {self.k} refuses shares from client {min(strange)}, which had no keys: sum again.")
        self.shares |= {j: self._open(j, box) for j, box in sealed.items()}
        encoded = encode(x, self.terms.fraction_bits, self.terms.clients).ravel()
        y = encoded + prg(self.seed, encoded.size)
        for j in sealed:
            y += pairwise_mask(self.mask_key, self.k, self.keys[j].mask, j, y.size)
        return y

    def unmask(self, survivors: Collection[int], dropped: Collection[int]) -> dict[int, int]:
        """{j: a share of j's seed if j survived, of j's mask key if j dropped out}; never both for one j."""
        survivors, dropped = (self.terms.ids("unmask", each) for each in (survivors, dropped))
        if both := set(survivors) & set(dropped):
            raise FairFLError(f"Client {self.k} refuses to reveal both secrets of client {min(both)}.")
        if self.k not in survivors or not {*survivors, *dropped} <= set(self.shares):
            raise FairFLError(f"Client {self.k} refuses to unmask: it did not share keys with that list.")
        self._enter("unmask", survivors)
        texts = {j: self.shares[j][SHARE_BYTES:] for j in survivors}
        texts |= {j: self.shares[j][:SHARE_BYTES] for j in dropped}
        return {j: int.from_bytes(text, "big") for j, text in texts.items()}

    def _enter(self, step: str, present: Collection[int]) -> None:
        if self.step != STEPS[STEPS.index(step) - 1]:
            raise FairFLError(f"Client {self.k} refuses '{step}' after '{self.step}': start a new sum.")
        self.terms.require(step, present)
        self.step = step

    def _channel(self, j: int) -> ChaCha20Poly1305:
        key = self.keys[j].channel
        if key not in self.channels:
            self.channels[key] = ChaCha20Poly1305(agree(self.channel_key, key, "channel"))
        return self.channels[key]

    # The authenticated mask keys tie a ciphertext to its sender, its receiver and this sum.
    def _seal(self, j: int, text: bytes) -> bytes:
        nonce = self.random(12)
        return nonce + self._channel(j).encrypt(nonce, text, self.keys[self.k].mask + self.keys[j].mask)

    def _open(self, j: int, box: bytes) -> bytes:
        text = b""
        if isinstance(box, bytes) and len(box) == 12 + 2 * SHARE_BYTES + 16:
            with suppress(InvalidTag):
                text = self._channel(j).decrypt(box[:12], box[12:], self.keys[j].mask + self.keys[self.k].mask)
        if not text or max(text[:SHARE_BYTES], text[SHARE_BYTES:]) >= PRIME.to_bytes(SHARE_BYTES, "big"):
            raise FairFLError(f"Client {j}'s shares for client {self.k} were altered or are malformed: sum again.")
        return text


class Server:
    """The server of one sum: it passes keys and shares on, adds masked inputs, and removes the masks left.

    After `unmask`, `wrong` names the clients whose answer was malformed or held a share that does not fit: a hint and no
    proof, since the client that dealt the share may have lied, and liars whose errors cancel in the secret, or in what
    X25519 reads of it, leave the sum right and make others seem wrong.
    """

    def __init__(self, terms: SecAgg, transcript: list[Message]) -> None:
        self.terms, self.transcript = terms, transcript
        self.wrong: tuple[int, ...] = ()
        self._begin({})

    def _begin(self, keys: dict[int, Keys]) -> None:
        self.keys, self.sharers, self.survivors, self.dropped = keys, set[int](), list[int](), list[int]()
        self.total: Words = np.zeros(0, dtype=np.uint64)

    def advertise_keys(self, keys: Mapping[int, Keys]) -> dict[int, Keys]:
        """Everybody's keys, for everybody."""
        self._begin(self.terms.keys("advertise keys", keys))
        for k, each in self.keys.items():
            self._saw("advertise keys", k, "public channel key", each.channel)
            self._saw("advertise keys", k, "public mask key", each.mask)
            self._saw("advertise keys", k, "commitment to the seed", each.commitment)
        self.terms.require("advertise keys", self.keys)
        return self.keys

    def share_keys(self, sealed: Mapping[int, Mapping[int, bytes]]) -> dict[int, dict[int, bytes]]:
        """From {sender: {receiver: ciphertext}} to {receiver: {sender: ciphertext}} of those that sent."""
        self._begin(self.keys)
        senders = self.terms.by_client("share keys", sealed)
        sent = {k: self.terms.by_client(f"share keys of client {k}", boxes) for k, boxes in senders.items()}
        self.terms.require("share keys", sent)
        for k, boxes in sent.items():
            if k not in self.keys or set(boxes) != set(self.keys) - {k} or not all(isinstance(b, bytes) for b in boxes.values()):
                raise FairFLError(f"Client {k} did not send bytes to each other client with keys: start a new sum without it.")
            for j, box in boxes.items():
                self._saw("share keys", k, f"encrypted shares for client {j}", box)
        self.sharers = set(sent)
        return {j: {k: boxes[j] for k, boxes in sent.items() if k != j} for j in sent}

    def masked_input(self, y: Mapping[int, Words]) -> tuple[list[int], list[int]]:
        """Add what arrived, words of 64 bits (int64 stands for the same bits); (survivors, dropped) of the sharers."""
        words: dict[int, Words] = {}
        for k, vector in self.terms.by_client("masked input", y).items():
            if not isinstance(vector, np.ndarray) or vector.ndim != 1 or vector.dtype not in (np.uint64, np.int64):
                raise FairFLError(f"Client {k}'s masked input is not a vector of 64-bit integers: start a new sum without it.")
            words[k] = np.asarray(vector).view(np.uint64)
            self._saw("masked input", k, "masked vector", words[k].tobytes())
        self.terms.require("masked input", words)
        if strange := set(words) - self.sharers:
            raise FairFLError(f"Client {min(strange)} sent a masked vector and shared no keys: start a new sum without it.")
        if len({vector.shape for vector in words.values()}) > 1:
            raise FairFLError("The masked vectors differ in length: give all clients the same length.")
        self.total = np.sum(list(words.values()), axis=0, dtype=np.uint64)
        self.survivors, self.dropped = sorted(words), sorted(self.sharers - set(words))
        return self.survivors, self.dropped

    def unmask(self, answers: Answers) -> NDArray[np.float64]:
        """The survivors' sum from {client: its shares}: less their seeds' masks, plus the dropped's masks.

        A survivor's answer that is not one share, 0 <= share < PRIME, for each client of the sum counts as silence.
        """
        heard = self.terms.by_client("unmask", answers)
        sound = {k: shares for k, shares in heard.items() if k in self.survivors and self._answers(shares)}
        self.wrong = tuple(sorted(heard.keys() - sound.keys()))
        for k, shares in sound.items():
            for j, value in shares.items():
                secret = "seed" if j in self.survivors else "mask key"
                what = f"share of the {secret} of client {j}"
                self._saw("unmask", k, what, int(value).to_bytes(SHARE_BYTES, "big"))
        self.terms.require("unmask", sound, malformed=self.wrong)
        total = self.total.copy()
        for j in self.survivors:
            total -= prg(self._recover(j, sound, commit, self.keys[j].commitment), total.size)
        for u in self.dropped:
            mask_key = self._recover(u, sound, public, self.keys[u].mask)
            for j in self.survivors:
                total += pairwise_mask(mask_key, u, self.keys[j].mask, j, total.size)
        return decode(total, self.terms.fraction_bits)

    def _recover(self, j: int, answers: Answers, check: Callable[[bytes], bytes], advertised: bytes) -> bytes:
        """j's secret from `threshold` shares that reproduce what j advertised; with just so many, none may be wrong.

        All choices of shares are tried if they are TRIES or fewer, else TRIES random ones: past these the sum is
        refused though a right choice may exist. Clients found wrong before come last.
        """
        shares = {k + 1: int(answers[k][j]) for k in sorted(answers, key=lambda k: (k in self.wrong, k))}
        points, size = list(shares), self.terms.threshold
        choices: Iterable[Collection[int]] = combinations(points, size)
        if comb(len(points), size) > TRIES:
            choices = chain([points[:size]], (SystemRandom().sample(points, size) for _ in range(TRIES - 1)))
        for chosen in choices:
            basis = {i: shares[i] for i in chosen}
            secret = reconstruct(basis)
            if secret < 2**256 and check(found := secret.to_bytes(32, "big")) == advertised:
                unfit = {i - 1 for i in points if i not in basis and reconstruct(basis, at=i) != shares[i]}
                self.wrong = tuple(sorted({*self.wrong, *unfit}))
                return found
        raise FairFLError(
            f"A share of client {j}'s secret is wrong, no {size} right of {len(points)} were found: start a new sum."
        )

    def _answers(self, shares: object) -> bool:
        asked = {*self.survivors, *self.dropped}
        return isinstance(shares, Mapping) and set(shares) == asked and all(_whole(v, 0, PRIME - 1) for v in shares.values())

    def _saw(self, step: str, sender: int, what: str, content: bytes) -> None:
        self.transcript.append(Message(step, sender, what, content))


@dataclass(frozen=True)
class SecAgg:
    """Secure sums over a number of clients: the server learns the sum and no summand.

    With n = clients and t = dropouts, any t - 1 dropouts are survived and t are refused: n - t + 1 clients must stay, and as
    many shares reconstruct a secret. A sum is exact up to ``n 2^-(fraction_bits + 1)``, then rounded to float64; `encode`
    states the range. Give it to a federation as ``aggregate``. It needs the extra "secure".

    Parameters
    ----------
    clients : int
        How many clients there are, 2 or more.
    dropouts : int
        How many dropouts are refused. 1 wants everybody to stay. It is at most (n + 1) // 2, so that more than half must
        stay: otherwise two halves of the clients, told different stories about a client, could give away both of its secrets.
    fraction_bits : int
        How many binary places of a number are kept, from 0 to 52.
    seed : int, optional
        Randomness is the operating system's. With a seed all keys follow from it by HKDF and a notebook shows the same bytes
        at each run; this is for teaching only.

    Attributes
    ----------
    transcript : list of Message
        What the server saw in the latest sum.

    Examples
    --------
    >>> from fairfl_lite import SecAgg
    >>> secure = SecAgg(clients=3, dropouts=2, seed=0)
    >>> secure.sum([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    array([ 9., 12.])

    The examples of the methods below go on from these lines.
    """

    clients: int
    dropouts: int = 1
    fraction_bits: int = 32
    seed: int | None = None
    transcript: list[Message] = field(default_factory=list, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not _whole(self.clients, 2, MOST_CLIENTS):
            raise FairFLError(f"Secure aggregation needs 2 or more clients, at most 2^32, not {_shown(self.clients)}.")
        most = (int(self.clients) + 1) // 2
        if not _whole(self.dropouts, 1, most):
            raise FairFLError(f"Of {self.clients} clients, choose dropouts 1 to {most}, not {_shown(self.dropouts)}.")
        if not _whole(self.fraction_bits, 0, 52):
            raise FairFLError(f"Choose fraction_bits from 0 to 52, not {_shown(self.fraction_bits)}.")
        if self.seed is not None and not _whole(self.seed, -(2**1024), 2**1024):
            raise FairFLError(f"Choose as seed a whole number of 1024 bits at most, or None, not {_shown(self.seed)}.")
        for name in ("clients", "dropouts", "fraction_bits"):
            object.__setattr__(self, name, int(getattr(self, name)))  # NumPy's small integers overflow

    @property
    def threshold(self) -> int:
        """How many clients must stay, n - t + 1.

        Examples
        --------
        >>> secure.threshold
        2
        """
        return self.clients - self.dropouts + 1

    @property
    def limit(self) -> float:
        """What every value of a message must be below in size, see `encode`.

        Examples
        --------
        >>> secure.limit
        715827882.6666666
        """
        return _limit(self.fraction_bits, self.clients)

    def require(self, step: str, present: Collection[int], malformed: Collection[int] = ()) -> None:
        """Refuse to go on with fewer than `threshold` clients; those not counted for a malformed message are named."""
        gone = self.clients - len(self.ids(step, present))
        if gone >= self.dropouts:
            named = f" (set aside as malformed or out of turn: {', '.join(map(str, malformed))})" if malformed else ""
            raise FairFLError(
                f"Secure aggregation is refused: {gone} of {self.clients} clients dropped out by '{step}'{named} "
                f"and at most {self.dropouts - 1} may; start a new sum or choose larger dropouts."
            )

    def ids(self, step: str, given: Collection[int]) -> list[int]:
        """The distinct clients given, in order; refuses all but 0..clients - 1 (-1 has Shamir's point 0, the secret)."""
        for k in (found := _listed(given)):
            if not _whole(k, 0, self.clients - 1):
                raise FairFLError(f"'{step}' names client {_shown(k)}: name clients by number, from 0 to {self.clients - 1}.")
        return list(dict.fromkeys(map(int, found)))

    def by_client(self, step: str, given: Mapping[int, Any]) -> dict[int, Any]:
        """{client: its message} with the clients checked by `ids`; refuses what is no mapping."""
        if not isinstance(given, Mapping):
            raise FairFLError(f"'{step}' takes a mapping from clients to their messages, not {_shown(given)}.")
        return dict(zip(self.ids(step, given), given.values(), strict=True))

    def keys(self, step: str, given: Mapping[int, Keys]) -> dict[int, Keys]:
        """{client: its keys}; refuses what is not 32 bytes each, or no sound X25519 key."""
        keys = self.by_client(step, given)
        for k, each in keys.items():
            three = (each.channel, each.mask, each.commitment) if isinstance(each, Keys) else (b"",)
            if not all(isinstance(key, bytes) and len(key) == 32 for key in three) or not all(map(_sound, three[:2])):
                raise FairFLError(f"Client {k}'s keys are malformed or of low order: start a new sum without it.")
        return keys

    @cached_property
    def members(self) -> tuple[Client, ...]:
        """The clients, whose channel keys last as long as this object."""
        if self.seed is None:
            return tuple(Client(k, self) for k in range(self.clients))
        secret = str(self.seed).encode()
        return tuple(Client(k, self, _stream(derive(secret, f"client {k}"))) for k in range(self.clients))

    def sum(self, values: ArrayLike, dropped: Collection[int] = (), silent: Collection[int] = ()) -> NDArray[np.float64]:
        """The sum over clients, by one run of the protocol.

        Parameters
        ----------
        values : array_like of shape (clients, ...)
            One message from each client.
        dropped : collection of int
            Clients who leave before their masked input, and are not in the sum.
        silent : collection of int
            Clients who leave after it, and are in the sum. Together with those dropped they must be fewer than `dropouts`.

        Returns
        -------
        ndarray of shape (...)

        Examples
        --------
        >>> secure.sum([[1.0], [2.0], [4.0]], dropped=[2])
        array([3.])
        """
        x = _reals(values)
        if x.ndim == 0 or len(x) != self.clients:
            raise FairFLError(f"Give one vector for each of the {self.clients} clients, not shape {x.shape}.")
        dropped, silent = self.ids("dropped", dropped), self.ids("silent", silent)
        self.transcript.clear()
        server = Server(self, self.transcript)
        keys = server.advertise_keys({c.k: c.advertise_keys() for c in self.members})
        sealed = server.share_keys({c.k: c.share_keys(keys) for c in self.members})
        staying = [c for c in self.members if c.k not in dropped]
        y = {c.k: c.masked_input(x[c.k].ravel(), sealed[c.k]) for c in staying}
        survivors, gone = server.masked_input(y)
        total = server.unmask({c.k: c.unmask(survivors, gone) for c in staying if c.k not in silent})
        return total.reshape(x.shape[1:])

    def __call__(self, messages: ArrayLike) -> NDArray[np.float64]:
        """[client, ...] -> [...]: the sum over clients, by one run of the protocol."""
        return self.sum(messages)
