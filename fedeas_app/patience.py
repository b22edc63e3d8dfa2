"""When a run whose rounds fail, one after the other, is given up."""

from collections import Counter

from fedeas_app.errors import UserError
from fedeas_app.federation import summarise
from fedeas_app.settings import Settings
from fedeas_app.strategies.report import RoundReport


class Patience:
    """Counts the rounds in a row in which no reply counts.

    Parameters
    ----------
    settings : Settings
        Their ``max-failed-rounds``.
    """

    def __init__(self, settings: Settings) -> None:
        self._most = settings.max_failed_rounds
        self._failed = 0

    def note(self, server_round: int, report: RoundReport) -> None:
        """Take notice of a round.

        Raises
        ------
        UserError
            Too many have failed; gives the reasons of this one.
        """
        self._failed = 0 if report.participants else self._failed + 1
        if self._failed < self._most:
            return
        before = f", like the {self._failed - 1} before" if self._failed > 1 else ""
        reasons = summarise(Counter(report.failures.values()))
        raise UserError(f"Round {server_round} has no usable reply{before}: {reasons}")
