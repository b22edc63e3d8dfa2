"""``fedeas compare``: a grid of runs, and what it says."""

from collections.abc import Mapping, Sized
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from fedeas_app.commands.configuration import (
    SetOption,
    absolute_path,
    load_values,
    parse_override,
    resolve,
)
from fedeas_app.commands.console import one_sentence, out
from fedeas_app.commands.execution import execute, foresee
from fedeas_app.commands.grid_progress import GridProgress, grid_progress
from fedeas_app.comparison.agreement import any_compared, disagreements
from fedeas_app.comparison.cells import Cell, make_cells
from fedeas_app.comparison.design import Design, design
from fedeas_app.comparison.grid import Grid, read_grid
from fedeas_app.comparison.reading import GRID, Comparison
from fedeas_app.comparison.running import alone_in, finished_runs, run_cells
from fedeas_app.comparison.summary import PHASES
from fedeas_app.comparison.table import TextTable, tables
from fedeas_app.comparison.writing import MARKDOWN
from fedeas_app.errors import UserError
from fedeas_app.files import write_text
from fedeas_app.reading import parse_toml
from fedeas_app.runs.reading import Run
from fedeas_app.settings import Settings
from fedeas_app.wording import plural

_DEFAULT = "digits"


_GridArgument = Annotated[
    Path | None,
    typer.Argument(
        help="A TOML file that says what to compare, or the directory of an earlier comparison "
        "to go on with; without it, --vary says what to compare."
    ),
]
_PresetOption = Annotated[
    str | None,
    typer.Option(
        metavar="PRESET", help="The preset or file that all cells start from; digits if none."
    ),
]
_VaryOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KEY=VALUE,VALUE",
        help="Run every value of a key, as seed=0,1,2; may be repeated, also for one key.",
    ),
]
_BaselineOption = Annotated[
    str | None,
    typer.Option(
        metavar="KEY=VALUE,KEY=VALUE",
        help="The arm to compare the others with, as strategy=fedavg,policy=none.",
    ),
]
_TargetOption = Annotated[
    float | None,
    typer.Option(
        metavar="ACCURACY", help="Also count the rounds to this accuracy, above 0 and up to 1."
    ),
]
_OutOption = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="DIR",
        help="Where the comparison is kept. Needed without GRID; with a file, the default is the "
        "file's name in output-dir.",
    ),
]


@one_sentence
def compare(
    grid: _GridArgument = None,
    config: _PresetOption = None,
    vary: _VaryOption = None,
    overrides: SetOption = None,
    baseline: _BaselineOption = None,
    target: _TargetOption = None,
    directory: _OutOption = None,
) -> None:
    """Run a grid of strategies, policies, seeds and any other key, and compare the results.

    Cells that are finished are kept: start the same command again to go on after an interruption.
    """
    asked = _read(grid, config)
    asked = _with_flags(asked, vary, overrides).with_comparison(_pairs(baseline), target)
    asked = asked.with_paths(absolute_path)
    base = Settings.parse({}).to_flat() | load_values(_preset(asked, grid), None)
    place = _place(directory, grid, base | dict(asked.shared))
    plan = design(make_cells(asked, base, resolve, place), asked, resolve)
    comparison = _carry_out(plan, place, asked.complete(base).with_paths(absolute_path))
    _conclude(comparison, len(plan.cells))


def _carry_out(plan: Design, place: Path, asked: Grid) -> Comparison:
    with alone_in(place):
        finished = finished_runs(plan)
        _announce(plan, finished, place)
        write_text(place / GRID, asked.to_toml())
        comparison = _run(plan, place, finished)
        _show(comparison)
        _draw(comparison)
        return comparison


def _draw(comparison: Comparison) -> None:
    from fedeas_app.comparison.drawing import draw_figures  # matplotlib takes a second

    with out.status("Drawing the figures"):
        troubles = draw_figures(comparison)
    for trouble in troubles:
        _say(trouble)


def _say(text: str) -> None:
    out.print(text, markup=False, soft_wrap=True)


def _read(grid: Path | None, config: str | None) -> Grid:
    if grid is None:
        return Grid(config=config)
    if not grid.is_dir():
        read = read_grid(grid)
        return read if config is None else replace(read, config=config)
    if config is not None:
        raise UserError(
            f"{grid} keeps its own configuration, so that --config {config} would change nothing; "
            "leave it out, or use --set."
        )
    if not (grid / GRID).is_file():
        raise UserError(f"{grid} is not a comparison's directory: no {GRID}.")
    return read_grid(grid / GRID)


def _preset(asked: Grid, grid: Path | None) -> Path | None:
    """Return what all cells start from; the grid of an earlier comparison says all by itself."""
    if grid is not None and grid.is_dir():
        return None
    return Path(asked.config or _DEFAULT).expanduser()


def _with_flags(asked: Grid, vary: list[str] | None, overrides: list[str] | None) -> Grid:
    lists: dict[str, list[Any]] = {}
    for key, values in map(_parse_list, vary or []):
        lists.setdefault(key, []).extend(values)
    return asked.with_varied(lists).with_shared(dict(map(parse_override, overrides or [])))


def _parse_list(text: str) -> tuple[str, list[Any]]:
    """Split ``key=value,value``, or ``key=[value, value]`` for texts with a comma in them."""
    key, equals, values = text.partition("=")
    if values.lstrip().startswith("["):
        with suppress(ValueError):
            return key.strip(), list(parse_toml(f"values = {values}")["values"])
    pairs = [parse_override(key + equals + value, "--vary") for value in values.split(",")]
    return pairs[0][0], [value for _, value in pairs]


def _pairs(text: str | None) -> dict[str, Any]:
    """Split ``key=value,key=value``."""
    parts = text.split(",") if text is not None else []
    return dict(parse_override(part, "--baseline") for part in parts)


def _place(directory: Path | None, grid: Path | None, values: Mapping[str, Any]) -> Path:
    """Return where the comparison is kept."""
    if directory is not None:
        return directory.expanduser().absolute()
    if grid is None:
        raise UserError("Name the directory of the comparison with --out DIR.")
    if grid.is_dir():
        return grid.absolute()
    return Path(str(absolute_path("output-dir", values["output-dir"]))).expanduser() / grid.stem


def _announce(plan: Design, finished: Sized, place: Path) -> None:
    kept = f", {len(finished)} of them finished already" if len(finished) else ""
    _say(f"{_size(plan)}{kept}, in {place}{_what_is_missing(plan)}")


def _size(plan: Design) -> str:
    """Say what is going to run: with a single seed which one, as the user may not have named it."""
    (arm, cell), *more = plan.cells
    if not more:
        return f"One cell: {arm.label}, seed {cell.seed}"
    seeds = plural(len(plan.seeds), "seed") if len(plan.seeds) > 1 else f"seed {cell.seed} alone"
    return f"{plural(len(plan.arms), 'arm')} over {seeds}: {plural(len(plan.cells), 'cell')}"


def _what_is_missing(plan: Design) -> str:
    """Say what it takes to compare something, if that is not there."""
    if len(plan.cells) == 1:
        return "; nothing is varied, so that there is nothing to compare it with."
    if len(plan.seeds) == 1:
        return "; with a single seed no difference can be told from chance, so vary seed as well."
    return ""


def _run(plan: Design, place: Path, finished: Mapping[str, Run]) -> Comparison:
    seconds = [sum(map(run.seconds, PHASES)) for run in finished.values()]
    with grid_progress() as progress:
        watcher = GridProgress(progress, len(plan.cells), len(finished), seconds)

        def perform(cell: Cell) -> None:
            expected = foresee(cell.settings)
            watcher.expect(expected)
            execute(cell.settings, expected, watcher.observe)

        try:
            return run_cells(plan, place, finished, perform, watcher)
        except KeyboardInterrupt:
            raise UserError(
                f"Interrupted with {watcher.done} of {plural(len(plan.cells), 'cell')} finished, "
                f"kept in {place}; fedeas compare {place} runs the rest."
            ) from None


def _show(comparison: Comparison) -> None:
    for table in tables(comparison):
        _print(table)


def _print(table: TextTable) -> None:
    out.print(f"\n{table.title}", style="bold", markup=False)
    shown = Table(box=None, padding=(0, 2, 0, 0))
    shown.add_column(table.header[0], overflow="fold")
    for name in table.header[1:]:
        shown.add_column(name, justify="right")
    for row in table.rows:
        shown.add_row(*map(Text, row))
    out.print(shown)
    for note in table.notes:
        out.print(note, style="dim", markup=False, soft_wrap=True)


def _conclude(comparison: Comparison, cells: int) -> None:
    """Say where the tables are, and whether they can be relied on.

    Raises
    ------
    UserError
        A cell failed, or cells that have to agree do not.
    """
    out.print(
        f"\nRecord: {comparison.directory} (table.md, table.csv, figures/, cells/); "
        f"fedeas report {comparison.directory} makes one page of it.",
        soft_wrap=True,
        markup=False,
    )
    wrong = disagreements(comparison)
    if wrong:
        raise UserError(
            f"The cells cannot be compared: {'; '.join(wrong)}. Their data or software changed "
            "between them; remove the old ones and run them again."
        )
    if comparison.failed:
        which = "; ".join(f"{cell.label}, seed {cell.seed}" for cell in comparison.failed)
        raise UserError(
            f"{len(comparison.failed)} of {plural(cells, 'cell')} failed ({which}); "
            f"{comparison.directory / MARKDOWN} says why, and the next start runs them again."
        )
    if any_compared(comparison):
        out.print(
            "Cells that share a seed and what describes the data had the same data, partition, "
            "first model and cohorts.",
            soft_wrap=True,
        )
