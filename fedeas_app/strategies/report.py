"""What a strategy says about a round: who took part, with what weight, and who failed."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Participant:
    """One client's part in a round; score and weight are the server's.

    Attributes
    ----------
    details : dict
        What else the strategy found out about this client, by the name that the record gives it.
    """

    partition: int
    num_examples: int
    oui: float
    loss: float
    score: float = 1.0
    weight: float = 0.0
    details: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class RoundReport:
    """Who took part in a round and who failed, with the reason.

    Attributes
    ----------
    participants : tuple of Participant
        Empty where the round did not count, and the global model stayed what it was.
    drift : float or None
        The weighted mean of the clients' ‖Δ_k − Δ̄‖² / ‖Δ̄‖²; None where Δ̄ is 0.
    """

    participants: tuple[Participant, ...]
    failures: dict[int, str] = field(default_factory=dict)
    drift: float | None = None

    @property
    def train_loss(self) -> float | None:
        """The weighted mean of the clients' training losses."""
        return sum(p.weight * p.loss for p in self.participants) if self.participants else None

    @property
    def effective_clients(self) -> float | None:
        """1 / Σ w², the number of equal clients that would average as much noise away."""
        return 1.0 / sum(p.weight**2 for p in self.participants) if self.participants else None
