"""The steps of SGD with momentum and weight decay, to the bit those of `torch.optim.SGD`.

torch's own loads torch's compiler when the first one is made in a process: 90 MB in every worker of
a simulation, and over a second before the first step of every message to a deployed client.
"""

from collections.abc import Iterable

import torch


class Sgd:
    """Changes parameters in place by g ← ∇ + λθ, v ← μv + g, θ ← θ − ηv.

    Parameters
    ----------
    parameters : iterable of Parameter
    learning_rate, momentum, weight_decay : float
        η, μ and λ.
    """

    def __init__(
        self,
        parameters: Iterable[torch.nn.Parameter],
        learning_rate: float,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
    ) -> None:
        self._parameters = list(parameters)
        self._rate = learning_rate
        self._momentum = momentum
        self._decay = weight_decay
        self._velocities: dict[torch.Tensor, torch.Tensor] = {
            parameter: torch.zeros_like(parameter) for parameter in self._parameters if momentum
        }

    def zero_grad(self) -> None:
        """Forget the gradients."""
        for parameter in self._parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """Take a step in the parameters that have a gradient."""
        moved: list[torch.Tensor] = []
        changes: list[torch.Tensor] = []
        for parameter in self._parameters:
            if parameter.grad is not None:
                moved.append(parameter)
                changes.append(parameter.grad)
        if not moved:
            return
        if self._decay:
            changes = list(torch._foreach_add(changes, moved, alpha=self._decay))
        if self._momentum:
            velocities = [self._velocities[parameter] for parameter in moved]
            torch._foreach_mul_(velocities, self._momentum)
            torch._foreach_add_(velocities, changes)
            changes = velocities
        torch._foreach_add_(moved, changes, alpha=-self._rate)
