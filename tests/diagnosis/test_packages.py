"""Versions that are held against ranges."""

import pytest
from packaging.requirements import Requirement

from fedeas_app.diagnosis import packages
from fedeas_app.diagnosis.packages import hold, look_at_versions
from fedeas_app.diagnosis.torch_view import TorchView

DECLARED = {
    "fedeas": [
        "torch<3,>=2.9", "numpy<3,>=2.0", "flwr-datasets[vision]<0.7,>=0.6",
        "transformers<6,>=4.57; extra == 'text'", "tensorboard<3; extra == 'tracking'",
        "ruff<1; extra == 'dev'",
    ],
    "flwr-datasets": ["datasets<5,>=4", "pillow>=6; extra == 'vision'"],
}  # fmt: skip
INSTALLED = {
    "torch": "2.14.1", "numpy": "2.4.6", "flwr-datasets": "0.6.1", "datasets": "4.8.5",
    "tensorboard": "2.21.0", "ruff": "0.11.0",
}  # fmt: skip

THERE = TorchView(build="CPU build")


@pytest.fixture
def installed(monkeypatch):
    """The packages that metadata tells of; None: not installed."""
    known = dict(INSTALLED)

    def version(name):
        if name not in known:
            raise packages.PackageNotFoundError(name)
        return known[name]

    monkeypatch.setattr(packages, "requires", DECLARED.get)
    monkeypatch.setattr(packages, "version", version)
    return known


def looked(torch=THERE):
    return {finding.subject: finding for finding in look_at_versions(torch)}


@pytest.mark.parametrize(
    ("version", "status"),
    [("2.9", "ok"), ("2.14.1+cu130", "ok"), ("2.8.9", "problem"), ("3.0", "problem")],
)
def test_a_version_is_in_its_range_or_a_problem(version, status):
    assert hold(Requirement("torch<3,>=2.9"), version).status == status


def test_advice_is_a_command_with_the_range_and_the_extras():
    found = hold(Requirement("flwr[simulation]<1.43,>=1.42.0"), None)
    assert found.found == "not installed"
    assert "-m pip install 'flwr[simulation]<1.43,>=1.42.0'" in found.advice


def test_what_bug_reports_are_about_has_a_line_and_the_rest_shares_one(installed):
    found = looked()
    assert found["torch"].found == "2.14.1, CPU build"
    assert found["others"].found == "numpy 2.4.6, tensorboard 2.21.0"
    assert found["datasets"].found == "4.8.5"  # declared by flwr-datasets alone
    assert not {"ruff", "transformers", "pillow"} & set(found)


def test_what_is_missing_or_out_of_range_is_named(installed):
    installed["numpy"] = "1.26.4"
    del installed["datasets"]
    found = looked()
    assert found["numpy"].found == "1.26.4, but <3,>=2.0 is required"
    assert [found[name].status for name in ("numpy", "datasets")] == ["problem", "problem"]


def test_torch_that_cannot_be_imported_is_a_problem(installed):
    found = looked(TorchView(broken="no libcudart"))["torch"]
    assert (found.status, found.found) == ("problem", "2.14.1")
    assert "no libcudart" in found.advice


def test_an_app_that_is_not_installed_says_so(monkeypatch):
    def unknown(name):
        raise packages.PackageNotFoundError(name)

    monkeypatch.setattr(packages, "requires", unknown)
    assert looked()["packages"].status == "warning"
