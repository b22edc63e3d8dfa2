"""A comparison whose numbers are known."""

import pytest
from made_up_runs import make_comparison, make_run


@pytest.fixture
def grid():
    """None and FedEAS at two values of β, three seeds each, with accuracies known."""
    return make_comparison(
        [
            ("none", {"policy": "none"}, _arm(0.40, policy="none")),
            ("fedeas β=2", {"policy": "fedeas", "beta": 2.0}, _arm(0.50, beta=2.0)),
            ("fedeas β=12", {"policy": "fedeas", "beta": 12.0}, _arm(0.60, beta=12.0)),
            ("full", {"policy": "full"}, _arm(0.70, policy="full")),
        ]
    )


def _arm(final, **keys):
    """Return runs whose final accuracies are `final` - 0.1, `final` and `final` + 0.1."""
    return [
        make_run((0.2, 0.3, round(final + 0.1 * (seed - 1), 3)), seed=seed, **keys)
        for seed in range(3)
    ]
