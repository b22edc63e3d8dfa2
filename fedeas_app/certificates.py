"""A private certificate authority for one federation, and the keys by which its nodes are known.

==================  ====  =======================================================
``ca.key``          0600  the authority's own key; it is needed to make certificates alone
``ca.crt``                what everyone who connects is given
``server.key``      0600  the SuperLink's key
``server.pem``            the SuperLink's certificate
``nodes/NAME``      0600  the key by which the SuperNode NAME proves who it is
``nodes/NAME.pub``        its public half, to be registered at the SuperLink
==================  ====  =======================================================

Keys are on the curve P-384; certificates follow RFC 5280, node keys are in OpenSSH's format, as
Flower wants them.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from filelock import FileLock

from fedeas_app.errors import UserError
from fedeas_app.files import make_directory, write_bytes

CA_DAYS = 3650
LOCAL_NAMES = ("localhost", "127.0.0.1", "::1")  # the SuperLink's own SuperExec connects there

_OWNER_ONLY = 0o600
_CLOCKS_DIFFER = timedelta(hours=1)  # between machines, at most, for a new certificate to count
_LABEL = r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_HOST = re.compile(rf"(\*\.)?{_LABEL}(\.{_LABEL})*")
_NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_NO_USAGE = dict.fromkeys(
    (
        "digital_signature", "content_commitment", "key_encipherment", "data_encipherment",
        "key_agreement", "key_cert_sign", "crl_sign", "encipher_only", "decipher_only",
    ),
    False,
)  # fmt: skip

Key = ec.EllipticCurvePrivateKey
Certificate = x509.Certificate


@dataclass(frozen=True)
class Authority:
    """Who vouches for a server: a certificate and the key it belongs to."""

    certificate: Certificate
    key: Key


@dataclass(frozen=True)
class Made:
    """A file that is there now, and whether it was before."""

    path: Path
    kept: bool


def open_authority(directory: Path) -> tuple[Authority, Made]:
    """Return the authority kept in a directory; make it there if there is none yet.

    Raises
    ------
    UserError
        One of its two files is missing, unreadable or belongs to another authority, or it has
        expired, or the place cannot be written.
    """
    make_directory(directory)
    key_path, path = directory / "ca.key", directory / "ca.crt"
    with FileLock(directory / ".lock"):
        kept = key_path.exists() or path.exists()
        if not kept:
            key = _new_key()
            _write_key(key_path, key)
            _write_certificate(path, _root_certificate(key))
        return _read_authority(path, key_path), Made(path, kept)


def issue_server(
    directory: Path, authority: Authority, names: Iterable[str], days: int
) -> Certificate:
    """Make the SuperLink's certificate, or replace it; its key, once made, stays.

    Parameters
    ----------
    directory : Path
        Where ``server.key`` and ``server.pem`` go.
    authority : Authority
        Who signs.
    names : iterable of str
        Host names and IP addresses by which the SuperLink is reached; this machine's own are added.
    days : int
        How long the certificate holds: at most as long as the authority does.

    Raises
    ------
    UserError
        A name is neither a host name nor an IP address, or ``server.key`` cannot be read.
    """
    wanted = [_general_name(name) for name in dict.fromkeys((*names, *LOCAL_NAMES))]
    path = directory / "server.key"
    if not path.exists():
        _write_key(path, _new_key())
    certificate = _server_certificate(authority, _read_key(path), wanted, days)
    _write_certificate(directory / "server.pem", certificate)
    return certificate


def server_names(directory: Path) -> list[str]:
    """Return the names of the server certificate in a directory; none where there is none."""
    path = directory / "server.pem"
    if not path.exists():
        return []
    extension = _read_certificate(path).extensions.get_extension_for_class(
        x509.SubjectAlternativeName
    )
    return [str(name.value) for name in extension.value]


def make_node_key(directory: Path, name: str) -> Made:
    """Make a SuperNode's key, with its public half beside it; a key that is there stays.

    Raises
    ------
    UserError
        The name would not do as a file's, or the key that is there cannot be read.
    """
    if not _NODE.fullmatch(name):
        raise UserError(
            f"The node name {name!r} cannot be used; letters, digits, '.', '_' and '-' are "
            "allowed, beginning with a letter or a digit, 64 at most."
        )
    path = make_directory(directory / "nodes") / name
    kept = path.exists()
    if not kept:
        _write_key(path, _new_key(), serialization.PrivateFormat.OpenSSH)
    public = _read_key(path).public_key()
    text = public.public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    write_bytes(path.with_name(f"{name}.pub"), text + f" {name}\n".encode())
    return Made(path, kept)


def _new_key() -> Key:
    return ec.generate_private_key(ec.SECP384R1())


def _root_certificate(key: Key) -> Certificate:
    serial = x509.random_serial_number()
    # A name of its own, so that the authorities of two federations can stand in one bundle.
    name = _common_name(f"FedEAS private CA {serial:040x}"[:64])
    usage = x509.KeyUsage(**(_NO_USAGE | {"key_cert_sign": True, "crl_sign": True}))
    return (
        _builder(name, name, key, CA_DAYS)
        .serial_number(serial)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .sign(key, hashes.SHA384())
    )


def _server_certificate(
    authority: Authority, key: Key, names: list[x509.GeneralName], days: int
) -> Certificate:
    issuer = authority.certificate
    usage = x509.KeyUsage(**(_NO_USAGE | {"digital_signature": True}))
    purpose = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
    signer = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key())
    return (
        _builder(
            _common_name("FedEAS SuperLink"), issuer.subject, key, days, issuer.not_valid_after_utc
        )
        .serial_number(x509.random_serial_number())
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(purpose, critical=False)
        .add_extension(signer, critical=False)
        .sign(authority.key, hashes.SHA384())
    )


def _builder(
    subject: x509.Name, issuer: x509.Name, key: Key, days: int, latest: datetime | None = None
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    end = now + timedelta(days=days)
    own = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .not_valid_before(now - _CLOCKS_DIFFER)
        .not_valid_after(min(end, latest) if latest else end)
        .add_extension(own, critical=False)
    )


def _common_name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _general_name(name: str) -> x509.GeneralName:
    address = _address(name)
    if address is not None:
        return x509.IPAddress(address)
    digits_alone = re.fullmatch(r"[0-9.]+", name)  # a mistyped address, never a host's name
    if digits_alone or len(name) > 253 or not _HOST.fullmatch(name):
        raise UserError(
            f"{name!r} is neither a host name nor an IP address; give it as nodes will use it, "
            "without a port, such as superlink.example.org or 10.0.0.5."
        )
    return x509.DNSName(name)


def _address(name: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(name)
    except ValueError:
        return None


def _write_key(
    path: Path,
    key: Key,
    form: serialization.PrivateFormat = serialization.PrivateFormat.PKCS8,
) -> None:
    data = key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
    write_bytes(path, data, mode=_OWNER_ONLY)


def _write_certificate(path: Path, certificate: Certificate) -> None:
    write_bytes(path, certificate.public_bytes(serialization.Encoding.PEM))


def _read_authority(path: Path, key_path: Path) -> Authority:
    authority = Authority(_read_certificate(path), _read_key(key_path))
    if authority.certificate.public_key() != authority.key.public_key():
        raise UserError(
            f"{path} and {key_path} do not belong together; put back the pair, or name another "
            "directory for a new authority."
        )
    if authority.certificate.not_valid_after_utc <= datetime.now(UTC):
        raise UserError(
            f"The authority {path} expired on {authority.certificate.not_valid_after_utc:%Y-%m-%d};"
            " make a new one in another directory and give its ca.crt to everyone who connects."
        )
    return authority


def _read_certificate(path: Path) -> Certificate:
    try:
        return x509.load_pem_x509_certificate(path.read_bytes())
    except (OSError, ValueError) as error:
        raise _unreadable(path, error) from None


def _read_key(path: Path) -> Key:
    try:
        data = path.read_bytes()
        is_openssh = data.startswith(b"-----BEGIN OPENSSH")
        load = (
            serialization.load_ssh_private_key if is_openssh else serialization.load_pem_private_key
        )
        key = load(data, password=None)
    except (OSError, ValueError, TypeError) as error:  # TypeError: it wants a password
        raise _unreadable(path, error) from None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise UserError(
            f"{path} is no elliptic-curve key; name another directory, or remove it to have a new "
            "one made."
        )
    return key


def _unreadable(path: Path, error: Exception) -> UserError:
    reason = error.strerror if isinstance(error, OSError) else "it is damaged or not of this kind"
    return UserError(f"{path} cannot be read ({reason}); put it back, or name another directory.")
