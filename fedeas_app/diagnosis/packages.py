"""Versions: of this app, of Python, and of the packages that the app declares with ranges."""

import platform
import sys
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, requires, version

from packaging.requirements import Requirement

from fedeas_app import __version__
from fedeas_app.diagnosis.findings import Finding, ok, problem, warning
from fedeas_app.diagnosis.torch_view import TorchView

_APP = "fedeas"
# Those that bug reports are about have a line of their own; the others share one.
_SHOWN = ("flwr", "ray", "torch", "torchvision", "diffusers", "flwr-datasets", "datasets")
_INDIRECT = {"flwr-datasets": "datasets"}  # who declares what the app uses without declaring it
_EXTRAS = ("text", "tracking")


def look_at_versions(torch: TorchView) -> list[Finding]:
    """Return the versions that there are, each held against its range."""
    found = [_held(requirement, torch) for requirement in _requirements()]
    shown = [one for one in found if one.status != "ok" or one.subject in _SHOWN]
    others = [f"{one.subject} {one.found}" for one in found if one not in shown]
    return [
        ok(_APP, __version__),
        ok("Python", f"{platform.python_version()} on {platform.system()} {platform.machine()}"),
        *_declared(found),
        *sorted(shown, key=_rank),
        *([ok("others", ", ".join(others))] if others else []),
    ]


def hold(requirement: Requirement, installed: str | None) -> Finding:
    """Hold the version of a package that is installed, if it is, against the one required."""
    name, wanted = requirement.name, str(requirement.specifier)
    advice = f"Install it: {_install(requirement)}."
    if installed is None:
        return problem(name, "not installed", advice)
    if not requirement.specifier.contains(installed, prereleases=True):
        return problem(name, f"{installed}, but {wanted} is required", advice)
    return ok(name, installed)


def _held(requirement: Requirement, torch: TorchView) -> Finding:
    finding = hold(requirement, _installed(requirement.name))
    if finding.subject != "torch" or finding.found == "not installed":
        return finding
    if torch.broken:
        again = f"It cannot be imported ({torch.broken}); install it again."
        return problem("torch", finding.found, again)
    return Finding("torch", finding.status, f"{finding.found}, {torch.build}", finding.advice)


def _install(requirement: Requirement) -> str:
    extras = f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else ""
    command = f"{sys.executable} -m pip install"
    return f"{command} '{requirement.name}{extras}{requirement.specifier}'"


def _requirements() -> Iterator[Requirement]:
    """Yield what the app needs, and what of its extras is installed."""
    for requirement in _declarations(_APP):
        if _applies(requirement, "") or (_is_extra(requirement) and _installed(requirement.name)):
            yield requirement
        if requirement.name in _INDIRECT:
            yield from _named(_INDIRECT[requirement.name], requirement.name)


def _named(name: str, package: str) -> list[Requirement]:
    return [one for one in _declarations(package) if one.name == name and _applies(one, "")][:1]


def _declarations(package: str) -> list[Requirement]:
    try:
        return [Requirement(text) for text in requires(package) or []]
    except PackageNotFoundError:
        return []


def _is_extra(requirement: Requirement) -> bool:
    return any(_applies(requirement, extra) for extra in _EXTRAS)


def _applies(requirement: Requirement, extra: str) -> bool:
    return requirement.marker is None or requirement.marker.evaluate({"extra": extra})


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _declared(found: Sequence[Finding]) -> list[Finding]:
    if found:
        return []
    advice = "Install the app with pip, so that the versions it needs are known."
    return [warning("packages", "fedeas itself is not installed here", advice)]


def _rank(finding: Finding) -> tuple[int, str]:
    first = finding.subject in _SHOWN
    return (_SHOWN.index(finding.subject) if first else len(_SHOWN)), finding.subject
