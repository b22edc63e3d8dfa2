"""FedTrimmedAvg: the coordinate-wise trimmed mean (Yin et al., arXiv 1803.01498)."""

import math
from functools import partial

from flwr.app import ArrayRecord
from flwr.serverapp.strategy.fedtrimmedavg import trim_mean

from fedeas_app.errors import UserError
from fedeas_app.settings import Settings
from fedeas_app.strategies.unweighted import Unweighted
from fedeas_app.strategies.updates import Updates
from fedeas_app.wording import plural


class FedTrimmedAvg(Unweighted):
    """Leave out the ⌊βn⌋ largest and smallest of n values in each coordinate; average the others.

    By Flower's `trim_mean`; Flower's ``aggregate_train`` would hold all models at once.
    """

    @classmethod
    def require_clients(cls, settings: Settings, clients: int) -> None:
        """Refuse β of which a round's clients are not even one: it would be a plain mean.

        Raises
        ------
        UserError
        """
        super().require_clients(settings, clients)
        if clients < _least(settings):
            raise UserError(
                f"trim-fraction is {settings.trim_fraction:g}, which leaves out none of the "
                f"{plural(clients, 'client')} that a round asks; {_advice(clients)}"
            )

    @property
    def needed_replies(self) -> int:
        """As many as one at either end can be left out of, or ``min-replies``."""
        return max(super().needed_replies, _least(self.settings))

    def merge(self, models: Updates, shares: dict[int, float]) -> ArrayRecord:
        """Return the trimmed means."""
        trim = partial(trim_mean, cut_fraction=self.settings.trim_fraction)
        return models.combine(sorted(shares), trim)


def _least(settings: Settings) -> int:
    """Return the smallest n with ⌊βn⌋ ≥ 1, β·n rounded as `trim_mean` has it."""
    least = math.ceil(1 / settings.trim_fraction)
    return least if int(settings.trim_fraction * least) >= 1 else least + 1


def _advice(clients: int) -> str:
    if clients < 3:
        return "have at least 3, or take another strategy."
    return f"set it to {math.ceil(1000 / clients) / 1000:g} or more."
