"""Generators from the hub: a small hub of our own on this machine."""

import hashlib
import json
import subprocess
import sys
import threading
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from tiny_pipelines import save_dit

from fedeas_app.errors import UserError
from fedeas_app.generators import hub, open_generator

COMMIT, OTHER = "a" * 40, "b" * 40
# The address of the hub and whether to go there are read when its library is imported.
PROGRAM = """
import sys
from fedeas_app.errors import UserError
from fedeas_app.generators.hub import fetch
from fedeas_app.settings import Settings
try:
    keys = {"generator": sys.argv[1], "generator-revision": sys.argv[2]}
    print(fetch(Settings.parse(keys)))
except UserError as error:
    print(error)
"""
LOOKING = """
import sys
from fedeas_app.generators.hub import is_fetched
from fedeas_app.settings import Settings
print(is_fetched(Settings.parse({"generator": sys.argv[1], "generator-revision": sys.argv[2]})))
"""


class Hub(BaseHTTPRequestHandler):
    """The few answers that the hub's library asks for."""

    def __init__(self, repositories, asked, *args):
        self.repositories, self.asked = repositories, asked
        super().__init__(*args)

    def do_GET(self):
        self.asked.append(self.path)
        self._answer(body=True)

    def do_HEAD(self):
        self.asked.append(self.path)
        self._answer(body=False)

    def log_message(self, *args):
        pass

    def _answer(self, *, body):
        words = self.path.split("?")[0].strip("/").split("/")
        if words == ["api", "agent-harnesses"]:  # asked for by the library itself, once a day
            return self._send(200, b"{}", {}, body=body)
        if words[:2] == ["api", "models"]:
            name, revision, path = "/".join(words[2:4]), words[5], None
        else:
            name, revision, path = "/".join(words[:2]), words[3], "/".join(words[4:])
        root = self.repositories.get(name)
        if root == "gated":
            return self._send(403, b"", {"X-Error-Code": "GatedRepo"}, body=body)
        if root is None:
            return self._send(404, b"", {"X-Error-Code": "RepoNotFound"}, body=body)
        if revision != COMMIT:
            return self._send(404, b"", {"X-Error-Code": "RevisionNotFound"}, body=body)
        if path is None:
            return self._send(200, json.dumps(_listing(root)).encode(), {}, body=body)
        data = (root / path).read_bytes()
        headers = {"X-Repo-Commit": COMMIT, "ETag": f'"{_blob(data)}"'}
        return self._send(200, data, headers, body=body)

    def _send(self, status, data, headers, *, body):
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if body:
            self.wfile.write(data)


def _listing(root):
    files = sorted(path for path in Path(root).rglob("*") if path.is_file())
    return [
        {"type": "file", "path": str(path.relative_to(root)), "size": path.stat().st_size,
         "oid": _blob(path.read_bytes())}
        for path in files
    ]  # fmt: skip


def _blob(data):
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


@pytest.fixture
def repositories(trained):
    return {"fedeas/tiny": trained, "fedeas/gated": "gated"}


@pytest.fixture
def serve(repositories):
    """Start the hub and return its address and a list of what it was asked."""
    asked = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Hub, repositories, asked))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", asked
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def fetch(serve, tmp_path):
    """Return a function that fetches a generator in a process of its own; what it says."""
    address, _ = serve

    def run(name, revision=COMMIT, program=PROGRAM, **environment):
        home = {"HF_HOME": str(tmp_path / "hf"), "HF_ENDPOINT": address, "HOME": str(tmp_path)}
        result = subprocess.run(
            [sys.executable, "-c", program, name, revision],
            cwd=tmp_path, capture_output=True, text=True, check=False, env=home | environment,
        )  # fmt: skip
        assert result.returncode == 0, result.stderr
        assert result.stdout.count("\n") == 1  # a path or a sentence
        return result.stdout.strip()

    return run


def test_a_generator_comes_from_the_hub_once(fetch, serve, trained):
    _, asked = serve
    root = Path(fetch("fedeas/tiny"))
    for file in ("card.json", "unet/config.json", "unet/diffusion_pytorch_model.safetensors"):
        assert (root / file).read_bytes() == (trained / file).read_bytes()
    assert asked
    asked.clear()
    assert fetch("fedeas/tiny") == str(root)
    assert fetch("fedeas/tiny", HF_HUB_OFFLINE="1") == str(root)
    assert asked == []


def test_looking_for_a_generator_asks_nothing(fetch, serve):
    _, asked = serve
    assert fetch("fedeas/tiny", program=LOOKING) == "False"
    assert asked == []
    fetch("fedeas/tiny")
    asked.clear()
    assert fetch("fedeas/tiny", program=LOOKING) == "True"
    assert asked == []


def test_code_pickle_and_copies_stay_there(fetch, repositories, tmp_path):
    root = save_dit(tmp_path / "dit")
    wanted = {str(path.relative_to(root)) for path in root.rglob("*.*")}
    for file in ("pipeline.py", "vae/model.bin", "all.safetensors", "vae/model.fp16.safetensors"):
        (root / file).write_bytes(b"unwanted")
    repositories["fedeas/dit"] = root
    fetched = Path(fetch("fedeas/dit"))
    assert {str(path.relative_to(fetched)) for path in fetched.rglob("*.*")} == wanted


def test_an_interrupted_download_is_completed(fetch):
    root = Path(fetch("fedeas/tiny"))
    weights = root / "unet/diffusion_pytorch_model.safetensors"
    weights.resolve().unlink()
    weights.unlink()
    assert "is not whole" in fetch("fedeas/tiny", HF_HUB_OFFLINE="1")
    assert fetch("fedeas/tiny") == str(root)
    assert weights.is_file()


def test_offline_without_a_copy(fetch, serve):
    assert "HF_HUB_OFFLINE forbids" in fetch("fedeas/tiny", HF_HUB_OFFLINE="1")
    assert serve[1] == []


def test_no_hub_there(fetch):
    message = fetch("fedeas/tiny", HF_ENDPOINT="http://127.0.0.1:9")
    assert "cannot be downloaded from the hub" in message


@pytest.mark.parametrize(
    ("name", "revision", "message"),
    [
        ("fedeas/none", COMMIT, "is not on the hub, or it is private"),
        ("fedeas/tiny", OTHER, f"has no commit {OTHER} on the hub"),
        ("fedeas/gated", COMMIT, "only to those who accepted its terms"),
    ],
)
def test_what_the_hub_refuses_is_a_sentence(fetch, name, revision, message):
    assert message in fetch(name, revision)


def test_a_repository_without_safetensors(fetch, repositories, tmp_path):
    root = tmp_path / "pickle"
    (root / "unet").mkdir(parents=True)
    (root / "unet/config.json").write_text("{}")
    (root / "unet/diffusion_pytorch_model.bin").write_bytes(b"pickle")
    repositories["fedeas/pickle"] = root
    assert "no weights in safetensors" in fetch("fedeas/pickle")


def test_what_was_fetched_is_opened_for_what_it_is(trained, tmp_path, configure, monkeypatch):
    keys = {"generator": "fedeas/tiny", "generator_revision": COMMIT}
    monkeypatch.setattr(hub, "fetch", lambda settings: trained)
    assert open_generator(configure(**keys)).image_shape == (8, 8, 1)
    root = save_dit(tmp_path / "dit")
    monkeypatch.setattr(hub, "fetch", lambda settings: root)
    keys |= {"generator_classes": "0,1,2,3,4,5,6,7,8,9", "guidance_scale": 1}
    generator = open_generator(configure(**keys))
    assert (type(generator).__name__, generator.name) == ("Pipeline", "'fedeas/tiny'")


def test_a_commit_must_be_named(configure):
    with pytest.raises(
        UserError, match=r"'fedeas/tiny' is no directory here .* generator-revision"
    ):
        open_generator(configure(generator="fedeas/tiny"))


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("owner/name", True),
        ("owner/name-1.5_b", True),
        ("0x/1", True),
        ("digits", False),
        ("a/b/c", False),
        ("owner/", False),
        ("/owner", False),
        ("./name", False),
        ("../name", False),
        ("~/name", False),
        ("owner/na me", False),
        ("", False),
    ],
)
def test_what_is_a_hub_id(name, wanted, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert hub.is_hub_id(name) is wanted


def test_what_is_here_is_a_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "owner/name").mkdir(parents=True)
    assert not hub.is_hub_id("owner/name")
