"""A private authority: what it signs, that real TLS accepts it, and who may read what."""

import os
import shutil
import ssl
import stat
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedeas_app import certificates
from fedeas_app.certificates import issue_server, make_node_key, open_authority, server_names
from fedeas_app.errors import UserError

NAMES = ["superlink.example.org", "10.0.0.5", "fd00::5", "*.hospital.test"]
LOCAL = ["localhost", "127.0.0.1", "::1"]
OPENSSL, SSH_KEYGEN = shutil.which("openssl"), shutil.which("ssh-keygen")


@pytest.fixture(autouse=True)
def _generous_umask() -> Iterator[None]:
    """What is secret must be so whatever the user's umask."""
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    authority, _ = open_authority(tmp_path)
    issue_server(tmp_path, authority, NAMES, 30)
    return tmp_path


def certificate(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_authority_may_sign_servers_and_nothing_below_them(directory: Path):
    root = certificate(directory / "ca.crt")
    constraints = root.extensions.get_extension_for_class(x509.BasicConstraints)
    usage = root.extensions.get_extension_for_class(x509.KeyUsage)
    assert constraints.critical
    assert constraints.value == x509.BasicConstraints(ca=True, path_length=0)
    assert usage.critical
    assert (usage.value.key_cert_sign, usage.value.crl_sign) == (True, True)
    assert not usage.value.digital_signature
    root.verify_directly_issued_by(root)
    assert timedelta(days=3649) < root.not_valid_after_utc - datetime.now(UTC)
    assert isinstance(root.public_key(), ec.EllipticCurvePublicKey)
    assert root.public_key().curve.name == "secp384r1"


def test_the_server_is_known_by_its_names_and_this_machines(directory: Path):
    server = certificate(directory / "server.pem")
    names = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    hosts = [NAMES[0], NAMES[3], "localhost"]
    assert names.get_values_for_type(x509.DNSName) == hosts
    addresses = [ip_address(text) for text in ("10.0.0.5", "fd00::5", "127.0.0.1", "::1")]
    assert names.get_values_for_type(x509.IPAddress) == addresses
    assert server_names(directory) == NAMES + LOCAL


def test_the_server_certificate_is_for_servers_alone(directory: Path):
    server, root = certificate(directory / "server.pem"), certificate(directory / "ca.crt")
    extensions = server.extensions
    assert not extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    purposes = extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert [purpose.dotted_string for purpose in purposes] == ["1.3.6.1.5.5.7.3.1"]
    assert extensions.get_extension_for_class(x509.KeyUsage).value.digital_signature
    assert not extensions.get_extension_for_class(x509.KeyUsage).value.key_cert_sign
    server.verify_directly_issued_by(root)
    lifetime = server.not_valid_after_utc - datetime.now(UTC)
    assert timedelta(days=29) < lifetime <= timedelta(days=30)
    assert server.not_valid_before_utc < datetime.now(UTC) - timedelta(minutes=30)


def shake_hands(server: Path, authority: Path, name: str) -> str | None:
    """Carry the bytes of a TLS handshake to and fro and return the version agreed upon."""
    accepting = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    accepting.load_cert_chain(server / "server.pem", server / "server.key")
    trusting = ssl.create_default_context(cafile=str(authority / "ca.crt"))
    trusting.verify_flags |= ssl.VERIFY_X509_STRICT
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = trusting.wrap_bio(to_client, to_server, server_hostname=name)
    served = accepting.wrap_bio(to_server, to_client, server_side=True)
    for side in (client, served, client, served):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
    return client.version()


@pytest.mark.parametrize(
    "name", ["superlink.example.org", "10.0.0.5", "fd00::5", "a.hospital.test", "localhost", "::1"]
)
def test_tls_accepts_the_server_under_each_of_its_names(directory: Path, name: str):
    assert shake_hands(directory, directory, name) == "TLSv1.3"


def test_tls_refuses_another_name_and_another_authority(directory: Path, tmp_path: Path):
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        shake_hands(directory, directory, "elsewhere.example.org")
    open_authority(tmp_path / "other")
    with pytest.raises(ssl.SSLCertVerificationError, match="unable to get local issuer"):
        shake_hands(directory, tmp_path / "other", "localhost")


@pytest.mark.skipif(OPENSSL is None, reason="openssl is not installed")
def test_openssl_agrees(directory: Path):
    words = [str(OPENSSL), "verify", "-x509_strict", "-purpose", "sslserver"]
    names = ["-verify_ip", "10.0.0.5", "-CAfile", str(directory / "ca.crt")]
    done = subprocess.run(
        [*words, *names, str(directory / "server.pem")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_only_the_owner_reads_keys_and_everyone_certificates(directory: Path):
    make_node_key(directory, "site-0")
    secret = ["ca.key", "server.key", "nodes/site-0"]
    public = ["ca.crt", "server.pem", "nodes/site-0.pub"]
    assert [mode(directory / name) for name in secret] == [0o600] * 3
    assert [mode(directory / name) for name in public] == [0o666] * 3  # with a umask of 0


def test_the_second_time_the_authority_and_the_servers_key_stay(directory: Path):
    kept = ["ca.key", "ca.crt", "server.key"]
    before = {name: (directory / name).read_bytes() for name in kept}
    old = certificate(directory / "server.pem")
    authority, made = open_authority(directory)
    issue_server(directory, authority, ["new.example.org"], 60)
    assert made.kept
    assert {name: (directory / name).read_bytes() for name in kept} == before
    new = certificate(directory / "server.pem")
    assert new.serial_number != old.serial_number
    assert server_names(directory) == ["new.example.org", *LOCAL]
    assert shake_hands(directory, directory, "new.example.org") == "TLSv1.3"


def test_a_name_given_twice_counts_once(tmp_path: Path):
    authority, _ = open_authority(tmp_path)
    issue_server(tmp_path, authority, ["a", "localhost", "a"], 1)
    assert server_names(tmp_path) == ["a", "localhost", "127.0.0.1", "::1"]


def test_no_certificate_outlives_its_authority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(certificates, "CA_DAYS", 5)
    authority, _ = open_authority(tmp_path)
    server = issue_server(tmp_path, authority, ["a"], 397)
    assert server.not_valid_after_utc == authority.certificate.not_valid_after_utc


def test_an_expired_authority_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(certificates, "CA_DAYS", 0)
    with pytest.raises(UserError, match=r"expired on \d{4}-\d\d-\d\d; make a new one"):
        open_authority(tmp_path)


@pytest.mark.parametrize("missing", ["ca.key", "ca.crt"])
def test_half_an_authority_is_never_replaced(directory: Path, missing: str):
    (directory / missing).unlink()
    with pytest.raises(UserError, match=f"{missing} cannot be read .*put it back"):
        open_authority(directory)
    assert not (directory / missing).exists()


def test_an_authority_of_two_halves_is_refused(directory: Path, tmp_path: Path):
    open_authority(tmp_path / "other")
    shutil.copy(tmp_path / "other/ca.key", directory / "ca.key")
    with pytest.raises(UserError, match="do not belong together"):
        open_authority(directory)


@pytest.mark.parametrize("name", ["ca.key", "ca.crt"])
def test_a_damaged_authority_is_refused(directory: Path, name: str):
    (directory / name).write_text("-----BEGIN NONSENSE-----")
    with pytest.raises(UserError, match="damaged or not of this kind"):
        open_authority(directory)


def test_a_key_of_another_kind_or_with_a_password_is_refused(directory: Path):
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    path = directory / "ca.key"
    path.write_bytes(key.private_bytes(pem, pkcs8, serialization.NoEncryption()))
    with pytest.raises(UserError, match="no elliptic-curve key"):
        open_authority(directory)
    path.write_bytes(key.private_bytes(pem, pkcs8, serialization.BestAvailableEncryption(b"x")))
    with pytest.raises(UserError, match="cannot be read"):
        open_authority(directory)


@pytest.mark.parametrize(
    "name",
    [
        "", "host:8000", "https://host", "10.0.0.256", "10.0.0", "-a", "a..b", "ä.org", "a b",
        "*", "a.*.b", "a" * 64, ".".join(["a" * 60] * 5),
    ],
)  # fmt: skip
def test_what_is_no_host_is_refused_and_nothing_is_written(tmp_path: Path, name: str):
    authority, _ = open_authority(tmp_path)
    with pytest.raises(UserError, match="neither a host name nor an IP address"):
        issue_server(tmp_path, authority, ["fine.example.org", name], 30)
    assert not (tmp_path / "server.pem").exists()
    assert not (tmp_path / "server.key").exists()


LABEL = st.from_regex(r"[a-z]([a-z0-9-]{0,20}[a-z0-9])?", fullmatch=True)
HOST = st.lists(LABEL, min_size=1, max_size=4).map(".".join)
ADDRESS = st.ip_addresses().map(str)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(names=st.lists(st.one_of(HOST, ADDRESS), min_size=1, max_size=4, unique=True))
def test_every_name_is_in_the_certificate_in_its_order(tmp_path: Path, names: list[str]):
    authority, _ = open_authority(tmp_path)
    issue_server(tmp_path, authority, names, 30)
    extra = [name for name in LOCAL if name not in names]
    assert server_names(tmp_path) == names + extra


def test_a_node_key_is_one_that_flower_takes(tmp_path: Path):
    made = make_node_key(tmp_path, "site-0")
    assert not made.kept
    assert made.path.read_bytes().startswith(b"-----BEGIN OPENSSH PRIVATE KEY-----")
    private = serialization.load_ssh_private_key(made.path.read_bytes(), password=None)
    assert isinstance(private, ec.EllipticCurvePrivateKey)
    assert private.curve.name == "secp384r1"
    public = (tmp_path / "nodes/site-0.pub").read_text()
    assert public.startswith("ecdsa-sha2-nistp384 ")
    assert public.endswith(" site-0\n")
    assert serialization.load_ssh_public_key(public.encode()) == private.public_key()


@pytest.mark.skipif(SSH_KEYGEN is None, reason="ssh-keygen is not installed")
def test_ssh_keygen_reads_the_key(tmp_path: Path):
    path = make_node_key(tmp_path, "site-0").path
    done = subprocess.run(
        [str(SSH_KEYGEN), "-y", "-f", str(path)], capture_output=True, text=True, check=True
    )
    assert done.stdout.split()[:2] == path.with_name("site-0.pub").read_text().split()[:2]


def test_a_node_keeps_its_key_and_gets_its_public_half_back(tmp_path: Path):
    first = make_node_key(tmp_path, "site-0").path.read_bytes()
    public = tmp_path / "nodes/site-0.pub"
    before = public.read_text()
    public.unlink()
    second = make_node_key(tmp_path, "site-0")
    assert second.kept
    assert second.path.read_bytes() == first
    assert public.read_text() == before


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", "-a", ".a", "a b", "ä", "a" * 65])
def test_a_node_name_that_is_no_file_name_is_refused(tmp_path: Path, name: str):
    with pytest.raises(UserError, match="node name"):
        make_node_key(tmp_path, name)
    assert not list(tmp_path.iterdir())


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be written"):
        open_authority(tmp_path / "file/certs")
