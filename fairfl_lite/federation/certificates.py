"""Certificates for a cluster: one command makes an authority of your own, and a certificate for each side that it vouches for.

Scheduler, workers and clients of Dask take a connection only from somebody whose certificate is by the same authority. The key of
the authority is thrown away when all are made, so nobody can make another one later: make a new set instead. Needs the extra
"secure".
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairfl_lite import store
from fairfl_lite.errors import FairFLError

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

ROLES = ("scheduler", "worker", "client")
AUTHORITY = "authority.pem"


def make(folder: Path | str, days: int = 365) -> dict[str, Path]:
    """Write an authority and a certificate with its key for each role.

    Parameters
    ----------
    folder : path
        A folder without certificates. Keys in it can be read by their owner alone.
    days : int
        For how many days they are valid.

    Returns
    -------
    dict of str to Path
        ``authority.pem``, which is public, and for each role ``ROLE.pem`` with certificate and key. A machine needs the first
        and the one of its role.

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> from fairfl_lite.federation import certificates
    >>> sorted(certificates.make(mkdtemp(), days=30))
    ['authority.pem', 'client.pem', 'scheduler.pem', 'worker.pem']
    """
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ec
    except ImportError:
        raise FairFLError("Certificates need the library cryptography: install fairfl-lite[secure].") from None
    folder = Path(folder)
    if not isinstance(days, int) or not 1 <= days <= 3650:
        raise FairFLError(f"Certificates are valid for 1 to 3650 days, not {days!r}.")
    if there := [name for name in (AUTHORITY, *(f"{role}.pem" for role in ROLES)) if (folder / name).exists()]:
        raise FairFLError(f"{folder / there[0]} is there already: name another folder, or remove it if no cluster uses it.")
    key = ec.generate_private_key(ec.SECP256R1())
    authority = _signed("authority", key, None, key, days)
    made = {AUTHORITY: folder / AUTHORITY}
    for role in ROLES:
        own = ec.generate_private_key(ec.SECP256R1())
        certificate = _signed(role, own, authority, key, days)
        form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        text = own.private_bytes(*form) + certificate.public_bytes(serialization.Encoding.PEM)
        made[f"{role}.pem"] = folder / f"{role}.pem"
        store.write(made[f"{role}.pem"], text, private=True)
    store.write(made[AUTHORITY], authority.public_bytes(serialization.Encoding.PEM))
    return made


def security(folder: Path | str) -> Any:
    """What a client of Dask needs to be taken in by a cluster with these certificates; give it as ``security`` to `fed.over`.

    Parameters
    ----------
    folder : path
        Where `make` wrote them; of the roles it needs ``client.pem``.

    Returns
    -------
    distributed.Security
    """
    try:
        from distributed import Security
    except ImportError:
        raise FairFLError("Dask is not installed: install fairfl-lite[dask].") from None
    folder, files = Path(folder), {}
    for name in (AUTHORITY, *(f"{role}.pem" for role in ROLES)):
        if (folder / name).is_file():
            files[name] = str(folder / name)
        elif name in (AUTHORITY, "client.pem"):
            raise FairFLError(f"There is no {folder / name}: make certificates by `fairfl certificates`, and copy both here.")
    own = {f"tls_{role}_{what}": files[f"{role}.pem"] for role in ROLES if f"{role}.pem" in files for what in ("cert", "key")}
    return Security(require_encryption=True, tls_ca_file=files[AUTHORITY], **own)


def _signed(
    name: str, key: EllipticCurvePrivateKey, by: x509.Certificate | None, signing: EllipticCurvePrivateKey, days: int
) -> x509.Certificate:
    """A certificate of this key, by an authority or, for the authority itself, by its own key."""
    from cryptography import x509
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"fairfl {name}")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(by.subject if by else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))  # clocks differ
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=by is None, path_length=None if by else 0), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signing.public_key()), critical=False)
        .add_extension(
            x509.KeyUsage(
                digital_signature=bool(by),
                content_commitment=False,
                key_encipherment=False,
                data_encipherment=False,
                key_agreement=False,
                key_cert_sign=by is None,
                crl_sign=by is None,
                encipher_only=False,
                decipher_only=False,
            ),
            critical=True,
        )  # fmt: skip
    )
    if by:
        uses = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]  # each side of Dask is both
        made = made.add_extension(x509.ExtendedKeyUsage(uses), critical=False)
    return made.sign(signing, SHA256())
