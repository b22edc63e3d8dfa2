"""Records written as a run writes them, with what a hostile client might put into them."""

import json
from pathlib import Path

import numpy as np
import tomli_w
from PIL import Image

from fedeas_app.runs.reading import ClassCounts, write_counts

SCRIPT = "<script>alert(1)</script>"
QUOTE = '"><img src=x onerror=alert(2)>'
LONG = "W" * 3000
CLASSES = ("cat", SCRIPT, QUOTE, LONG)
REAL = np.array([[9, 0, 0, 1], [0, 5, 5, 0], [2, 2, 2, 2]])
SYNTHETIC = np.array([[0, 4, 4, 3], [2, 0, 0, 2], [0, 0, 0, 0]])
ACCURACIES = (0.25, 0.75, 0.5)


def write_run(directory: Path, **keys: object) -> Path:
    """Write a completed run of three clients and three rounds; keys in snake case go to its
    settings.
    """
    directory.mkdir(parents=True)
    settings = {"num-clients": 3, "rounds": 3, "policy": "fedeas", "strategy": "fedoui"}
    settings |= {key.replace("_", "-"): value for key, value in keys.items()}
    (directory / "config.toml").write_text(tomli_w.dumps(settings))
    dump(directory / "manifest.json", manifest())
    dump(directory / "plan.json", plan())
    lines = [{"round": 0, "accuracy": 0.1, "loss": 2.5, "seconds": 0.1}, *map(line, (1, 2, 3))]
    text = "".join(json.dumps(each) + "\n" for each in lines)
    (directory / "rounds.jsonl").write_text(text)
    seconds = {"load": 1.0, "prepare": 90.0, "train": 4.5}
    results = {"final": 0.5, "best": 0.75, "auc": 0.5625, "failures": 2}
    dump(directory / "summary.json", {"status": "completed", **results, "seconds": seconds})
    write_counts(directory, ClassCounts(CLASSES, REAL, SYNTHETIC))
    return directory


def break_off(directory: Path, status: str, **more: object) -> None:
    """Make it a run that has not ended well."""
    dump(directory / "summary.json", {"status": status, **more, "seconds": {"load": 1.0}})


def add_samples(directory: Path) -> None:
    """Put a sheet of four rows and eight columns beside it."""
    pixels = np.random.default_rng(0).integers(0, 256, (4 * 66 + 2, 8 * 66 + 2), np.uint8)
    Image.fromarray(pixels).save(directory / "samples.png")


def write_comparison(directory: Path) -> Path:
    """Write a comparison of two arms, two seeds each, one of which failed."""
    arms = []
    for strategy, baseline in (("fedavg", None), ("fedoui", f"fedavg {SCRIPT}")):
        cells = [{"name": f"{strategy}-s{seed}", "seed": seed} for seed in (0, 1)]
        arms.append({
            "label": f"{strategy} {SCRIPT}", "values": {"strategy": strategy},
            "baseline": baseline, "cells": cells,
        })  # fmt: skip
        for cell in cells:
            if cell["name"] != "fedoui-s1":
                write_run(directory / "cells" / cell["name"], strategy=strategy, seed=cell["seed"])
    dump(directory / "comparison.json", {
        "varied": ["strategy"], "baseline": f"fedavg {SCRIPT}", "target": 0.6, "arms": arms,
        "failed": {"fedoui-s1": f"{QUOTE} {LONG}"},
    })  # fmt: skip
    return directory


def dump(path: Path, content: object) -> None:
    path.write_text(json.dumps(content))


def manifest() -> dict:
    digests = {
        "train": "a" * 64,
        "test": "b" * 64,
        "partition": "c" * 64,
        "initial-model": "d" * 64,
    }
    return {
        "versions": {"fedeas": "0.1.0", "torch": SCRIPT},
        "machine": {"system": "Linux", "cores": 2},
        "digests": digests | {"generator": ""},
        "classes": list(CLASSES),
        "scenario": {"noisy-clients": [1], "noise-rate": 0.4},
    }


def plan() -> dict:
    clients = [
        {
            "partition-id": k, "num-examples": int(REAL[k].sum()),
            "synthetic": int(SYNTHETIC[k].sum()), "made": 1, "imbalance-before": 0.5,
            "imbalance-after": 0.25, "seconds": 1.5,
        }
        for k in range(3)
    ]  # fmt: skip
    totals = {"beta": 12.0, "real": 28, "synthetic": 15, "made": 3}
    return totals | {"imbalance-before": 0.5, "imbalance-after": 0.25, "clients": clients}


def line(number: int) -> dict:
    participants = [
        {
            "partition": k, "num-examples": 10, "oui": 0.2 + 0.1 * k + 0.01 * number, "loss": 1.0,
            "score": 0.5, "weight": 0.5, "drift": 1.25,
        }
        for k in (0, 2)
    ]  # fmt: skip
    return {
        "round": number, "accuracy": ACCURACIES[number - 1], "loss": 2.0, "seconds": 1.5,
        "train-loss": 1.0, "effective-clients": 2.0, "drift": 1.25, "participants": participants,
        "failures": {"1": f"{SCRIPT} {LONG}"} if number > 1 else {},
    }  # fmt: skip


def add_generator(directory: Path, pictures: str = "generator/samples") -> None:
    """Make it a run of three rounds of a generator, the second of which did not count."""
    lines = [
        generator_line(1, 0.5, {"0": 0.75, "2": 0.25}, {"1": f"{SCRIPT} {LONG}"}),
        generator_line(2, None, {}, {"0": "Out of memory.", "1": "Out of memory."}),
        generator_line(3, 0.25, {"0": 0.5, "1": 0.3, "2": 0.2}, {}),
    ]
    text = "".join(json.dumps(each) + "\n" for each in lines)
    (directory / "generator.jsonl").write_text(text)
    found = [
        {"partition_id": 0, "checked": 8, "copies": 1},
        {"partition_id": 2, "checked": 8, "copies": 0},
    ]
    totals = {"checked": 16, "copies": 1, "failures": {QUOTE: 1}}
    dump(directory / "generator-copies.json", totals | {"clients": found})
    (directory / pictures).mkdir(parents=True)
    for number in (1, 2, 3, 4):
        pixels = np.full((4 * 10 + 2, 8 * 10 + 2), 50 * number, np.uint8)
        Image.fromarray(pixels).save(directory / pictures / f"round-{number:05}.png")


def generator_line(number: int, loss: float | None, weights: dict, failures: dict) -> dict:
    return {
        "round": number,
        "loss": loss,
        "seconds": 20.0,
        "weights": weights,
        "failures": failures,
    }
