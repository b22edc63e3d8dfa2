"""A full cache, made once and copied for every test."""

import pytest
from full_cache import copy_of, fill


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return fill(tmp_path_factory.mktemp("made") / "cache")


@pytest.fixture
def cache(made, tmp_path):
    return copy_of(made, tmp_path / "cache")
