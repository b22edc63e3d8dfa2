"""What a run would generate, from labels alone."""

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedeas_app import budget
from fedeas_app.errors import UserError
from fedeas_app.reading import read_text

Counts = NDArray[np.int64]

_NAME_COLUMNS = {"client", "clients", "partition", "site", "node", "id", "name", ""}


@dataclass(frozen=True)
class Forecast:
    """The plan for a table of counts.

    Attributes
    ----------
    policy : str
    beta : float
        Resolved when ``auto`` was asked for.
    counts : array of int, shape (K, C)
        Real images.
    allocation : array of int, shape (K, C)
        Synthetic images.
    totals : dict
        Images that every policy would make at this β, the total-based ones at FedEAS's total;
        None where a policy cannot place them.
    """

    policy: budget.Policy
    beta: float
    counts: Counts
    allocation: Counts
    totals: dict[budget.Policy, int | None]

    @property
    def synthetic(self) -> int:
        """All synthetic images."""
        return int(self.allocation.sum())

    @property
    def imbalance_before(self) -> float:
        """I over the real images."""
        return budget.imbalance(self.counts)

    @property
    def imbalance_after(self) -> float:
        """I over real and synthetic images."""
        return budget.imbalance(self.counts + self.allocation)

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data, keys as in a run's plan.json."""
        before = budget.client_imbalance(self.counts)
        after = budget.client_imbalance(self.counts + self.allocation)
        rows = zip(self.counts, self.allocation, before, after, strict=True)
        return {
            "policy": self.policy,
            "beta": self.beta,
            "real": int(self.counts.sum()),
            "synthetic": self.synthetic,
            "imbalance-before": self.imbalance_before,
            "imbalance-after": self.imbalance_after,
            "totals": self.totals,
            "clients": [
                {
                    "partition": partition,
                    "num-examples": int(real.sum()),
                    "synthetic": int(made.sum()),
                    "counts": real.tolist(),
                    "synthetic-counts": made.tolist(),
                    "imbalance-before": float(skew),
                    "imbalance-after": float(rest),
                }
                for partition, (real, made, skew, rest) in enumerate(rows)
            ],
        }


def forecast(counts: Counts, policy: budget.Policy, beta: float | str) -> Forecast:
    """Work out the plan of one policy and the totals of all.

    Raises
    ------
    UserError
        β cannot be chosen automatically, or the policy has nowhere to put its images.
    """
    try:
        resolved = budget.auto_beta(counts) if beta == "auto" else float(beta)
        allocation = budget.allocate(counts, policy, beta=resolved)
        budget.imbalance(counts + allocation)  # or what is shown later could not be worked out
        totals = {name: _total(counts, name, resolved) for name in budget.POLICIES}
    except ValueError as error:
        raise UserError(str(error)) from error
    return Forecast(policy, resolved, counts, allocation, totals)


def read_counts(path: Path) -> Counts:
    """Read a table of counts: a row a client, a column a class; a header line is allowed.

    Under a header, a first column called client, partition, site or id, or nothing at all, names
    the clients and is left out, where at least two classes follow.

    Raises
    ------
    UserError
        Names the line and what stands there.
    """
    try:
        reader = csv.reader(read_text(path).removeprefix("\ufeff").splitlines(keepends=True))
        rows = [(reader.line_num, row) for row in reader if row]
    except (OSError, ValueError, csv.Error) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or error
        raise UserError(f"The counts table {path} cannot be read: {reason}.") from error
    if rows and not any(_is_number(cell) for cell in rows[0][1]):
        header = rows[0][1]
        first = 1 if len(header) > 2 and header[0].strip().lower() in _NAME_COLUMNS else 0
        rows = [(line, row[first:]) for line, row in rows[1:]]
    if not rows or not rows[0][1]:  # nothing below a header, or no more than a name
        raise UserError(f"The counts table {path} holds no client; write a row of counts for each.")
    return np.array([_parse(path, line, row, len(rows[0][1])) for line, row in rows], np.int64)


def _parse(path: Path, line: int, row: list[str], width: int) -> list[int]:
    if len(row) != width:
        raise UserError(
            f"{path}, line {line}: {len(row)} columns, but the first client has {width}."
        )
    bad = next((cell for cell in row if not _is_count(cell)), None)
    if bad is not None:
        raise UserError(
            f"{path}, line {line}: {bad!r} is not a count; use whole numbers from 0 on."
        )
    return [int(cell.strip()) for cell in row]


def _is_count(cell: str) -> bool:
    text = cell.strip()
    return text.isascii() and text.isdigit() and len(text) <= 15


def _is_number(cell: str) -> bool:
    """Tell a wrong count (-1, 2.5) from a column's name: a wrong first line is no header."""
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _total(counts: Counts, policy: budget.Policy, beta: float) -> int | None:
    """Return what a policy would make, or None where it cannot: nowhere to put it, or too many."""
    try:
        return int(budget.allocate(counts, policy, beta=beta).sum())
    except ValueError:
        return None
