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
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import prod

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
    limit = 2.0 ** (63 - fraction_bits) / clients
    with np.errstate(over="ignore"):
        scaled = np.rint(np.asarray(x, dtype=np.float64) * 2.0**fraction_bits)
    if not np.all(np.abs(scaled) < limit * 2.0**fraction_bits):
        raise FairFLError(
            f"Secure aggregation of {clients} clients with fraction_bits={fraction_bits} takes finite values "
            f"strictly between {-limit:.6g} and {limit:.6g}: rescale them or choose fewer fraction_bits."
        )
    return scaled.astype(np.int64).view(np.uint64)


def decode(total: Words, fraction_bits: int) -> NDArray[np.float64]:
    """The inverse of `encode` on a sum, rounded to float64 (exact while |sum| <= 2^(53-f))."""
    return total.view(np.int64) / 2.0**fraction_bits


def share(
    secret: int, points: Collection[int], threshold: int, random: Random, prime: int = PRIME
) -> dict[int, int]:
    """Shamir: {point: f(point)}, f of degree threshold - 1 over GF(prime), random but for f(0) = secret.

    Points are distinct and not 0. The 16 spare bytes per coefficient keep it within 2^-128 of uniform.
    """
    size = (prime.bit_length() + 7) // 8 + 16
    coefficients = [int.from_bytes(random(size), "big") % prime for _ in range(threshold - 1)]
    shares = dict.fromkeys(points, 0)
    for point in points:
        for coefficient in [*coefficients, secret]:
            shares[point] = (shares[point] * point + coefficient) % prime
    return shares


def reconstruct(shares: Mapping[int, int], prime: int = PRIME) -> int:
    """f(0) = sum_i f(x_i) prod_{m != i} x_m / (x_m - x_i) from threshold or more shares {x_i: f(x_i)}."""
    secret = 0
    for i, value in shares.items():
        others = [m for m in shares if m != i]
        secret += value * prod(others) * pow(prod(m - i for m in others), -1, prime)
    return secret % prime


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
        self.k, self.terms, self.random, self.step = k, terms, random, ""
        self.channel_key = random(32)
        self.channels: dict[bytes, ChaCha20Poly1305] = {}
        self.shares: dict[int, bytes] = {}

    def advertise_keys(self) -> Keys:
        """Draw this sum's mask key and seed, and advertise what may be known of them."""
        self.step = "advertise keys"
        self.mask_key, self.seed = self.random(32), self.random(32)
        self.shares = {}
        return Keys(public(self.channel_key), public(self.mask_key), commit(self.seed))

    def share_keys(self, keys: Mapping[int, Keys]) -> dict[int, bytes]:
        """{j: j's shares of this client's mask key and seed, encrypted for j}, over those that advertised."""
        self._enter("share keys", keys)
        self.keys = dict(keys)
        both = dict.fromkeys(keys, b"")
        for secret in (self.mask_key, self.seed):
            points = [j + 1 for j in keys]
            shares = share(int.from_bytes(secret, "big"), points, self.terms.threshold, self.random)
            both = {j: both[j] + shares[j + 1].to_bytes(SHARE_BYTES, "big") for j in keys}
        self.shares[self.k] = both.pop(self.k)
        return {j: self._seal(j, text) for j, text in both.items()}

    def masked_input(self, x: ArrayLike, sealed: Mapping[int, bytes]) -> Words:
        """y_k for the vector x, masked against every client whose encrypted shares arrived."""
        self._enter("masked input", {self.k, *sealed})
        self.shares |= {j: self._open(j, box) for j, box in sealed.items()}
        encoded = encode(x, self.terms.fraction_bits, self.terms.clients)
        y = encoded + prg(self.seed, encoded.size)
        for j in sealed:
            y += pairwise_mask(self.mask_key, self.k, self.keys[j].mask, j, y.size)
        return y

    def unmask(self, survivors: Collection[int], dropped: Collection[int]) -> dict[int, int]:
        """{j: a share of j's seed if j survived, of j's mask key if j dropped out}; never both for one j."""
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
        try:
            return self._channel(j).decrypt(box[:12], box[12:], self.keys[j].mask + self.keys[self.k].mask)
        except InvalidTag:
            raise FairFLError(f"Client {j}'s shares for client {self.k} were altered: sum again.") from None


class Server:
    """The server of one sum: it passes keys and shares on, adds masked inputs, and removes the masks left."""

    def __init__(self, terms: SecAgg, transcript: list[Message]) -> None:
        self.terms, self.transcript = terms, transcript

    def advertise_keys(self, keys: Mapping[int, Keys]) -> dict[int, Keys]:
        """Everybody's keys, for everybody."""
        self.keys = dict(keys)
        for k, each in keys.items():
            self._saw("advertise keys", k, "public channel key", each.channel)
            self._saw("advertise keys", k, "public mask key", each.mask)
            self._saw("advertise keys", k, "commitment to the seed", each.commitment)
        self.terms.require("advertise keys", keys)
        return self.keys

    def share_keys(self, sealed: Mapping[int, Mapping[int, bytes]]) -> dict[int, dict[int, bytes]]:
        """From {sender: {receiver: ciphertext}} to {receiver: {sender: ciphertext}} of those that sent."""
        for k, boxes in sealed.items():
            for j, box in boxes.items():
                self._saw("share keys", k, f"encrypted shares for client {j}", box)
        self.terms.require("share keys", sealed)
        self.sharers = set(sealed)
        return {j: {k: boxes[j] for k, boxes in sealed.items() if k != j} for j in sealed}

    def masked_input(self, y: Mapping[int, Words]) -> tuple[list[int], list[int]]:
        """Add what arrived; (survivors, dropped) among the clients that shared keys."""
        for k, vector in y.items():
            self._saw("masked input", k, "masked vector", vector.tobytes())
        self.terms.require("masked input", y)
        if len({vector.shape for vector in y.values()}) > 1:
            raise FairFLError("The masked vectors differ in length: give all clients the same length.")
        self.total: Words = np.sum(list(y.values()), axis=0, dtype=np.uint64)
        self.survivors, self.dropped = sorted(y), sorted(self.sharers - set(y))
        return self.survivors, self.dropped

    def unmask(self, answers: Answers) -> NDArray[np.float64]:
        """The survivors' sum from {client: its shares}: less their seeds' masks, plus the dropped's masks."""
        for k, shares in answers.items():
            for j, value in shares.items():
                secret = "seed" if j in self.survivors else "mask key"
                what = f"share of the {secret} of client {j}"
                self._saw("unmask", k, what, value.to_bytes(SHARE_BYTES, "big"))
        self.terms.require("unmask", answers)
        total = self.total.copy()
        for j in self.survivors:
            total -= prg(self._recover(j, answers, commit, self.keys[j].commitment), total.size)
        for u in self.dropped:
            mask_key = self._recover(u, answers, public, self.keys[u].mask)
            for j in self.survivors:
                total += pairwise_mask(mask_key, u, self.keys[j].mask, j, total.size)
        return decode(total, self.terms.fraction_bits)

    def _recover(self, j: int, answers: Answers, check: Callable[[bytes], bytes], advertised: bytes) -> bytes:
        shares = {k + 1: answers[k][j] for k in sorted(answers)[: self.terms.threshold]}
        secret = (reconstruct(shares) % 2**256).to_bytes(32, "big")
        if check(secret) != advertised:
            raise FairFLError(f"A share of client {j}'s secret is wrong, its mask stays on: start a new sum.")
        return secret

    def _saw(self, step: str, sender: int, what: str, content: bytes) -> None:
        self.transcript.append(Message(step, sender, what, content))


@dataclass(frozen=True)
class SecAgg:
    """Secure sums over `clients` clients, refused when `dropouts` of them, or more, drop out.

    With n = clients and t = dropouts, any t - 1 dropouts are survived and t are refused:
    threshold = n - t + 1 clients must stay, and as many shares reconstruct a secret. t = 1, the default,
    wants everybody to stay. t is at most (n + 1) // 2, so that threshold > n / 2: otherwise two halves of the
    clients, told different stories about a client, could give away both of its secrets.

    A sum is exact up to n 2^-(fraction_bits + 1), then rounded to float64; `encode` states the range.
    Randomness is the operating system's. With `seed` all keys follow from it by HKDF and a notebook shows the
    same bytes at each run: for teaching only. `transcript` holds what the server saw in the latest sum.
    """

    clients: int
    dropouts: int = 1
    fraction_bits: int = 32
    seed: int | None = None
    transcript: list[Message] = field(default_factory=list, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        most = (self.clients + 1) // 2
        if self.clients < 2:
            raise FairFLError(f"Secure aggregation needs 2 or more clients, not {self.clients}.")
        if not 1 <= self.dropouts <= most:
            raise FairFLError(f"Of {self.clients} clients, choose dropouts 1 to {most}, not {self.dropouts}.")
        if not 0 <= self.fraction_bits <= 52:
            raise FairFLError(f"Choose fraction_bits from 0 to 52, not {self.fraction_bits}.")

    @property
    def threshold(self) -> int:
        """n - t + 1."""
        return self.clients - self.dropouts + 1

    def require(self, step: str, present: Collection[int]) -> None:
        """Refuse to go on with fewer than `threshold` clients."""
        gone = self.clients - len(present)
        if gone >= self.dropouts:
            raise FairFLError(
                f"Secure aggregation is refused: {gone} of {self.clients} clients dropped out "
                f"by '{step}' and at most {self.dropouts - 1} may; start a new sum or choose larger dropouts."
            )

    @cached_property
    def members(self) -> tuple[Client, ...]:
        """The clients, whose channel keys last as long as this object."""
        if self.seed is None:
            return tuple(Client(k, self) for k in range(self.clients))
        secret = str(self.seed).encode()
        return tuple(Client(k, self, _stream(derive(secret, f"client {k}"))) for k in range(self.clients))

    def sum(
        self, values: ArrayLike, dropped: Collection[int] = (), silent: Collection[int] = ()
    ) -> NDArray[np.float64]:
        """Sum over the first axis of values [client, ...] by one run of the protocol.

        `dropped` clients leave before their masked input and are not in the sum; `silent` ones leave after it
        and are in the sum. Together they must be fewer than `dropouts`.
        """
        x = np.asarray(values, dtype=np.float64)
        if x.ndim == 0 or len(x) != self.clients:
            raise FairFLError(f"Give one vector for each of the {self.clients} clients, not shape {x.shape}.")
        if not {*dropped, *silent} <= set(range(self.clients)):
            raise FairFLError(f"Name the dropped and silent clients by number, from 0 to {self.clients - 1}.")
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
        """[run, client, ...] -> [run, ...]: the sum over clients, one run of the protocol for each run."""
        x = np.asarray(messages, dtype=np.float64)
        return np.array([self.sum(run) for run in x]).reshape(x.shape[:1] + x.shape[2:])
