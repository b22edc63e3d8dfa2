"""A generator on its way to the clients."""

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord

from fedeas_app.errors import UserError
from fedeas_app.generators import at_float32, open_generator
from fedeas_app.generators.federated.handout import FILES, keep, pack, told


@pytest.fixture
def settings(job):
    return job()


@pytest.fixture
def packed(trained, settings):
    return pack(trained, settings)


def test_what_arrives_is_what_was_sent_byte_for_byte(trained, packed, settings, job, tmp_path):
    elsewhere = told(job(cache_dir=str(tmp_path / "elsewhere")), packed.digest)
    directory = keep(packed.files, elsewhere)
    for name in FILES:
        assert (directory / name).read_bytes() == (trained / name).read_bytes()
    assert open_generator(at_float32(elsewhere)).digest == packed.digest


def test_the_server_keeps_it_too(packed, settings):
    assert open_generator(at_float32(told(settings, packed.digest))).digest == packed.digest


def test_other_generators_need_no_telling(configure):
    settings = configure(generator="digits")
    assert told(settings, "0" * 64) is settings


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"card.json": None}, "not those of a generator"),
        ({"../../escape": Array(np.zeros(1, np.uint8))}, "not those of a generator"),
        ({"card.json": Array(np.zeros(3, np.float32))}, "card.json does not hold bytes"),
        ({"card.json": Array(np.zeros((2, 2), np.uint8))}, "card.json does not hold bytes"),
        ({"card.json": Array("uint8", (3,), "numpy.ndarray", b"???")}, "does not hold bytes"),
    ],
)
def test_files_that_are_none_are_refused(packed, job, tmp_path, change, words):
    files = {k: v for k, v in (dict(packed.files) | change).items() if v is not None}
    cache = tmp_path / "elsewhere"
    with pytest.raises(UserError, match=words):
        keep(ArrayRecord(files), told(job(cache_dir=str(cache)), packed.digest))
    assert not cache.exists()


def test_another_generator_than_the_run_wants_is_refused(packed, job, tmp_path):
    wanted = told(job(cache_dir=str(tmp_path / "elsewhere")), "0" * 64)
    with pytest.raises(UserError, match=f"its digest is {packed.digest}, not 0000"):
        keep(packed.files, wanted)


def test_a_damaged_copy_is_made_anew(packed, settings):
    directory = keep(packed.files, told(settings, packed.digest))
    (directory / "unet/config.json").write_text("{}")
    keep(packed.files, told(settings, packed.digest))
    assert open_generator(at_float32(told(settings, packed.digest))).digest == packed.digest


def test_without_a_run_it_has_no_place(settings):
    with pytest.raises(UserError, match="which a run trains"):
        open_generator(settings)
