"""Multi-Krum (Blanchard et al., arXiv 1703.02757)."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fedeas_app.errors import UserError
from fedeas_app.settings import Settings
from fedeas_app.strategies.base import WeightedAverage
from fedeas_app.strategies.distances import krum_scores, squared_distances
from fedeas_app.strategies.report import Participant
from fedeas_app.strategies.updates import Updates
from fedeas_app.wording import plural

_SCORE = "krum-score"


class MultiKrum(WeightedAverage):
    """Average the m updates that lie nearest to the others; f of a round's n may be hostile.

    Alike, as in the paper. Flower's MultiKrum weighs those chosen by their numbers of examples, so
    that a hostile client needs to be chosen only once with a forged number. Ties go to the lower
    partition.
    """

    @classmethod
    def require_clients(cls, settings: Settings, clients: int) -> None:
        """Refuse n < 2f + 3, where nothing is guaranteed, and m > n − f − 2.

        Raises
        ------
        UserError
        """
        super().require_clients(settings, clients)
        hostile, wanted = settings.malicious_clients, cls.wanted(settings)
        if clients < 2 * hostile + 3:
            raise UserError(
                f"malicious-clients is {hostile}, for which {settings.strategy!r} needs at least "
                f"{2 * hostile + 3} clients in a round, but {plural(clients, 'client')} "
                f"{'is' if clients == 1 else 'are'} asked; {_advice(clients)}"
            )
        if wanted > clients - hostile - 2:
            raise UserError(
                f"krum-selected is {wanted}, but of {clients} clients with {hostile} hostile "
                f"among them at most {clients - hostile - 2} can be chosen; set it so, or to 0."
            )

    @staticmethod
    def wanted(settings: Settings) -> int:
        """Return the m that was asked for; 0: as many as possible."""
        return settings.krum_selected

    @property
    def needed_replies(self) -> int:
        """2f + 3, or ``min-replies``."""
        return max(super().needed_replies, 2 * self.settings.malicious_clients + 3)

    def examine(self, participants: list[Participant], models: Updates) -> list[Participant]:
        """Add the Krum scores."""
        partitions = [p.partition for p in participants]
        distances = squared_distances(models, partitions, self.trainable)
        scores = krum_scores(distances, self.settings.malicious_clients)
        return [
            replace(p, details=p.details | {_SCORE: float(score)})
            for p, score in zip(participants, scores, strict=True)
        ]

    def weigh(
        self, participants: list[Participant]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return 1/m for those chosen and 0 for the others; and for scores, 1 and 0."""
        krum = np.array([p.details[_SCORE] for p in participants])
        most = len(krum) - self.settings.malicious_clients - 2
        chosen = np.zeros(len(krum))
        wanted = self.wanted(self.settings) or most
        chosen[np.argsort(krum, kind="stable")[: min(wanted, most)]] = 1
        return chosen / chosen.sum(), chosen


def _advice(clients: int) -> str:
    most = (clients - 3) // 2
    if most < 0:
        return "have at least 3 clients, or take another strategy."
    at_most = f"{most} or less" if most else "0"
    return f"set it to {at_most}, or have more clients."
