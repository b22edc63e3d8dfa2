"""The plan and the result in words."""

from fedeas_app.preparation import ClientPlan, Plan
from fedeas_app.runs.text import plan_lines, summary_line, total_lines


def plan(clients, beta=12.0):
    return Plan(beta, tuple(clients), {c.partition_id: 5 for c in clients}, {})


def client(k, real=1000, synthetic=0, made=0, before=0.4, after=0.4):
    return ClientPlan(k, real, synthetic, made, before, after, 1.5)


def test_each_client_has_a_line(configure):
    lines = plan_lines(
        plan([client(0, 1000, 250, 250, 0.5, 0.25), client(1)]), configure(policy="fedeas")
    )
    assert lines[0] == "Plan (policy fedeas, β = 12):"
    assert lines[2].split() == ["0", "1,000", "250", "0.500", "→", "0.250", "1.5"]
    assert lines[3].split() == ["1", "1,000", "0", "0.400", "→", "0.400", "1.5"]
    assert len(lines) == 5


def test_poor_clients_are_named_between_the_clients_and_the_total(configure):
    settings = configure(noisy_fraction=1.0, noise_rate=0.25, rare_fraction=1.0, rare_cap=1_500)
    lines = plan_lines(plan([client(0), client(1)]), settings)
    assert lines[-3:-1] == [
        "Noisy (25% of the labels wrong): clients 0, 1.",
        "Rare (at most 1,500 images): clients 0, 1.",
    ]


def test_policies_without_beta_show_none(configure):
    lines = plan_lines(plan([client(0)], beta=0.0), configure(policy="full"))
    assert lines[0] == "Plan (policy full):"


def test_many_clients_are_cut_short_and_counted(configure):
    lines = plan_lines(plan([client(k) for k in range(25)]), configure())
    assert lines[-2].strip() == "... and 5 more clients, all in plan.json"
    assert len(lines) == 2 + 20 + 1 + 1
    assert not any(
        "more clients" in line
        for line in plan_lines(plan([client(k) for k in range(20)]), configure())
    )


def test_totals_say_what_was_made_and_what_it_changed():
    clients = [client(0, 600, 100, 30, 0.5, 0.2), client(1, 200, 100, 0, 0.1, 0.1)]
    (line,) = total_lines(plan(clients))
    # 200 of 1,000; I = (600·0.5 + 200·0.1)/800 = 0.4 and (700·0.2 + 300·0.1)/1000 = 0.17.
    assert line == (
        "Total: 200 synthetic for 800 real images (20.0% of all); 30 made now, 170 from the cache; "
        "imbalance 0.400 → 0.170."
    )


def test_a_total_of_zero_is_said_aloud():
    (line,) = total_lines(plan([client(0, 1500), client(1, 500)]))
    assert line.startswith("Total: no synthetic image for 2,000 real ones")
    assert "imbalance 0.400" in line


def test_the_result_is_one_line():
    line = summary_line(
        {"final": 0.9123, "best": 0.95, "auc": 0.81234, "seconds": {"load": 1.0, "train": 12.34}}
    )
    assert line == (
        "Test accuracy: final 91.23%, best 95.00%, AUC 0.8123. Time: load 1.0 s, train 12.3 s."
    )
