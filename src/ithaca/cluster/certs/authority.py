"""An authority in a directory: `ca.pem`, which everybody may know, and `ca.key`, which nobody else may have."""

import ipaddress
import os
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, NamedTuple

from ithaca.model.addresses import is_numeric
from ithaca.model.errors import ConfigError, InvalidInput
from ithaca.model.security.identity import Identity, identity_in

try:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
except ModuleNotFoundError as error:
    raise InvalidInput("making certificates needs a package that is not here: pip install cryptography") from error

AUTHORITY: Final = "ca"
AUTHORITY_DAYS: Final = 3650
DAYS: Final = 365
DAYS_MAX: Final = 36_500
_CLOCK_SLACK: Final = timedelta(minutes=5)
"""Clocks of others may be behind by so much."""
_NAME_CHARS_MAX: Final = 64
"""Of a common name."""


class Issued(NamedTuple):
    """Where a certificate and its key are."""

    certificate: Path
    key: Path


class Shown(NamedTuple):
    """What a certificate says."""

    subject: str
    issuer: str
    identity: Identity | None
    hosts: tuple[str, ...]
    begins: datetime
    ends: datetime
    is_authority: bool


class Authority:
    """One that was made before; `ConfigError` where there is none."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        certificate, key = _paths(directory, AUTHORITY)
        try:
            self._certificate = x509.load_pem_x509_certificate(certificate.read_bytes())
            loaded = serialization.load_pem_private_key(key.read_bytes(), None)
        except FileNotFoundError as error:
            raise ConfigError(
                f"there is no authority in {directory}, {Path(error.filename).name} is missing: make one with "
                f"ithaca certs init --dir {directory}"
            ) from None
        except (ValueError, TypeError) as error:
            raise ConfigError(f"the authority in {directory} cannot be used: {error}") from error
        if not isinstance(loaded, ec.EllipticCurvePrivateKey):
            raise ConfigError(f"the key of the authority in {directory} is of a kind that is not used here")
        self._key = loaded

    @classmethod
    def make(cls, directory: Path, name: str, days: int = AUTHORITY_DAYS) -> "Authority":
        """A new one; `InvalidInput` when there is one already."""
        certificate, key = _paths(directory, AUTHORITY)
        if certificate.exists() or key.exists():
            raise InvalidInput(f"there is an authority in {directory} already: choose another directory")
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        private = ec.generate_private_key(ec.SECP256R1())
        subject = _subject(f"{name} authority")
        builder = _builder(subject, subject, private.public_key(), days)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        builder = builder.add_extension(_usage(signs_certificates=True), critical=True)
        _write(key, _private_bytes(private), 0o600)
        _write(certificate, _pem(builder.sign(private, hashes.SHA256())), 0o644)
        return cls(directory)

    def issue_server(self, cluster: str, server: str, hosts: Sequence[str], days: int = DAYS) -> Issued:
        """A certificate that says which server of which cluster this is, at these hosts. One that is there is renewed,
        with a new key."""
        if not hosts:
            raise InvalidInput(f"{server} has no host: name those by which it is dialled")
        names: list[x509.GeneralName] = [x509.UniformResourceIdentifier(Identity(cluster, server=server).uri)]
        names += [
            x509.IPAddress(ipaddress.ip_address(host)) if is_numeric(host) else x509.DNSName(host) for host in hosts
        ]
        return self._issue(server, names, [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH], days)

    def issue_user(self, cluster: str, user: str, days: int = DAYS) -> Issued:
        """A certificate that says who a user is; it is of no use to a server."""
        uri = x509.UniformResourceIdentifier(Identity(cluster, user=user).uri)
        return self._issue(user, [uri], [ExtendedKeyUsageOID.CLIENT_AUTH], days)

    def _issue(
        self, name: str, names: Sequence[x509.GeneralName], purposes: Sequence[x509.ObjectIdentifier], days: int
    ) -> Issued:
        _check_name(name)
        private = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(_subject(name), self._certificate.subject, private.public_key(), days)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(_usage(signs_certificates=False), critical=True)
        builder = builder.add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = builder.add_extension(issuer, critical=False)
        issued = Issued(*_paths(self._directory, name))
        _write(issued.key, _private_bytes(private), 0o600)
        _write(issued.certificate, _pem(builder.sign(self._key, hashes.SHA256())), 0o644)
        return issued


def show(path: Path) -> Shown:
    """What the certificate in a file says; `ConfigError` when there is none in it."""
    try:
        certificate = x509.load_pem_x509_certificate(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise ConfigError(f"{path} holds no certificate in PEM format: {error}") from None
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        names = x509.SubjectAlternativeName([])
    try:
        is_authority = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        is_authority = False
    hosts = (*names.get_values_for_type(x509.DNSName), *map(str, names.get_values_for_type(x509.IPAddress)))
    return Shown(
        certificate.subject.rfc4514_string(),
        certificate.issuer.rfc4514_string(),
        identity_in(names.get_values_for_type(x509.UniformResourceIdentifier)),
        hosts,
        certificate.not_valid_before_utc,
        certificate.not_valid_after_utc,
        is_authority,
    )


def _check_name(name: str) -> None:
    """It becomes the name of two files."""
    if not name or len(name) > _NAME_CHARS_MAX or not name.isprintable() or "/" in name or name.startswith("."):
        raise InvalidInput(
            f"{name!r} is no name for a certificate: use up to {_NAME_CHARS_MAX} characters, no slash, no dot in front"
        )
    if name == AUTHORITY:
        raise InvalidInput(f"{name!r} is the authority's own name: use another")


def _paths(directory: Path, name: str) -> tuple[Path, Path]:
    return directory / f"{name}.pem", directory / f"{name}.key"


def _subject(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:_NAME_CHARS_MAX])])


def _builder(
    subject: x509.Name, issuer: x509.Name, public: ec.EllipticCurvePublicKey, days: int
) -> x509.CertificateBuilder:
    if not 1 <= days <= DAYS_MAX:
        raise InvalidInput(f"days is {days}: use 1 to {DAYS_MAX}")
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(subject_name=subject, issuer_name=issuer, public_key=public)
    builder = builder.serial_number(x509.random_serial_number())
    builder = builder.not_valid_before(now - _CLOCK_SLACK).not_valid_after(now + timedelta(days=days))
    return builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _private_bytes(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _write(path: Path, data: bytes, mode: int) -> None:
    """At once or not at all; nobody else can read a key, not even for a moment."""
    new = path.with_name(f"{path.name}.new")
    new.unlink(missing_ok=True)
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(new, path)
