"""From a directory to a page: what is in it decides which."""

from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from fedeas_app.comparison.agreement import disagreements
from fedeas_app.comparison.reading import is_comparison, read_comparison
from fedeas_app.errors import UserError
from fedeas_app.figures import comparison_figures, comparison_missing, run_figures, run_missing
from fedeas_app.report import comparison_parts, configuration, generator_parts, run_parts
from fedeas_app.report.drawings import embed_all
from fedeas_app.report.samples import sample_sheet
from fedeas_app.runs.reading import Run, is_run, read_run

_PRINTED = "fedeas run and fedeas compare print theirs at their end"
_TEMPLATES = Path(__file__).parent / "templates"


def render(directory: Path) -> str:
    """Return the page of a run's or a comparison's directory: the same bytes every time.

    Raises
    ------
    UserError
        It is neither, or a file in it is damaged.
    """
    require_record(directory)
    if is_comparison(directory):
        return _page("comparison.html", _comparison_page(directory))
    return _page("run.html", _run_page(directory))


def require_record(directory: Path) -> None:
    """Refuse what is not the directory of a run or of a comparison.

    Raises
    ------
    UserError
        Says what it is, and where else there may be one.
    """
    if is_comparison(directory) or is_run(directory):
        return
    if not directory.exists():
        raise UserError(f"There is no directory {directory}; {_PRINTED}.")
    if not directory.is_dir():
        raise UserError(f"{directory} is a file; name the directory of a run or of a comparison.")
    inside = [each for each in sorted(directory.iterdir()) if is_comparison(each) or is_run(each)]
    advice = f"it holds some, such as {inside[-1]}" if inside else _PRINTED
    raise UserError(
        f"{directory} is neither a run's directory (config.toml, summary.json) nor a comparison's "
        f"(comparison.json); {advice}."
    )


def _page(template: str, content: dict[str, Any]) -> str:
    """Fill in a template; every value is escaped, as it may come from anybody's machine."""
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    page = environment.get_template(template).render(content)
    return page.encode("utf-8", "replace").decode("utf-8")  # JSON can hold half a character


def _run_page(directory: Path) -> dict[str, Any]:
    run = read_run(directory)
    drawings, undrawn = embed_all(run_figures(run))
    return {
        "name": directory.resolve().name,
        "title": run_parts.title(run),
        "headline": run_parts.headline(run),
        "remarks": run_parts.remarks(run),
        "trouble": run_parts.trouble(run),
        "facts": run_parts.facts(run),
        "drawings": drawings,
        "missing": undrawn + run_missing(run),
        "generator": _generator(run),
        "generator_only": run.settings.generator_only,
        "plan_facts": run_parts.plan_facts(run),
        "plan": run_parts.plan_table(run),
        "rounds": run_parts.rounds_table(run),
        "failures": run_parts.failures_table(run),
        "no_failures": run_parts.no_failures(run),
        "samples": [sample_sheet(run)],
        "configuration": configuration.tables(run.settings.to_flat()),
        "provenance": [run_parts.versions_table(run), run_parts.digests_table(run)],
    }


def _generator(run: Run) -> dict[str, Any]:
    """Return what there is to say of a generator that the clients trained; nothing of others."""
    if not run.settings.trains_generator:
        return {}
    return {
        "facts": generator_parts.facts(run),
        "sheets": generator_parts.sheets(run),
        "tables": generator_parts.tables(run),
    }


def _comparison_page(directory: Path) -> dict[str, Any]:
    comparison = read_comparison(directory)
    pictures = comparison_figures(comparison) + comparison_parts.budget_maps(comparison)
    drawings, undrawn = embed_all(pictures)
    return {
        "name": directory.resolve().name,
        "title": comparison_parts.title(comparison),
        "headline": comparison_parts.headline(comparison),
        "remarks": [],
        "trouble": comparison_parts.trouble(comparison),
        "doubts": disagreements(comparison),
        "facts": comparison_parts.facts(comparison),
        "tables": comparison_parts.result_tables(comparison),
        "drawings": drawings,
        "missing": [
            *undrawn,
            *comparison_missing(comparison),
            *comparison_parts.maps_left_out(comparison),
        ],
        "failed": comparison_parts.failed_table(comparison),
        "samples": comparison_parts.sample_sheets(comparison),
        "configuration": configuration.tables(comparison_parts.shared_values(comparison)),
    }
