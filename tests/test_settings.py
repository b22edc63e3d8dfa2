"""The configuration: defaults, limits, sentences, and the files that must agree with them."""

import math
import re
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from fedeas_app.errors import UserError
from fedeas_app.settings import Settings, allowed, read_toml

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
KEYS = sorted(Settings.parse({}).to_flat())

# Key, a wrong value, and words that must tell what is right.
WRONG = [
    ("dataset", "", "not empty"),
    ("dataset", 3, "text"),
    ("image-size", -1, "whole number ≥ 0"),
    ("image-size", 2.5, "whole number ≥ 0"),
    ("train-samples", "all", "whole number ≥ 0"),
    ("num-clients", 0, "≥ 1"),
    ("num-clients", "many", "'auto'"),
    ("num-clients", True, "whole number"),
    ("partitioner", "pathological", "'dirichlet', 'iid', 'classes'"),
    ("alpha", 0, "> 0"),
    ("alpha", -0.1, "> 0"),
    ("alpha", "0.1", "a number > 0"),
    ("alpha", True, "a number > 0"),
    ("alpha", math.nan, "> 0"),
    ("alpha", math.inf, "> 0"),
    ("alpha", 10**400, "> 0"),
    ("seed", -1, "≥ 0"),
    ("seed", 2**63, "< 9.22337e+18"),
    ("seed", 1.0, "whole number"),
    ("rounds", 0, "≥ 1"),
    ("fraction-train", 0.0, "> 0 and ≤ 1"),
    ("fraction-train", 1.01, "> 0 and ≤ 1"),
    ("fraction-train", math.nan, "> 0 and ≤ 1"),
    ("momentum", 1, "≥ 0 and < 1"),
    ("momentum", math.nan, "≥ 0 and < 1"),
    ("weight-decay", math.inf, "≥ 0"),
    ("augment", 1, "true or false"),
    ("augment", "yes", "true or false"),
    ("model", "vgg", "'cnn', 'resnet18'"),
    ("strategy", "fedsgd", "'fedavg', 'fedprox', 'scaffold'"),
    ("weight-by", "synthetic", "'real', 'total'"),
    ("oui-probe-size", 1, "≥ 2"),
    ("oui-window", 0, "≥ 1"),
    ("oui-smoothing", 1.0, "≥ 0 and < 1"),
    ("oui-layers", "first", "'penultimate', 'all'"),
    ("oui-layers", 0, "≥ 1"),
    ("proximal-mu", -0.1, "a number ≥ 0 or 'auto'"),
    ("proximal-mu", math.inf, "'auto'"),
    ("scaffold-option", "III", "'I', 'II'"),
    ("scaffold-weights", "n", "'examples', 'clients'"),
    ("moon-mu", 0, "> 0"),
    ("moon-temperature", 0.0, "> 0"),
    ("server-learning-rate", 0, "a number > 0 or 'auto'"),
    ("server-momentum", 1.0, "< 1"),
    ("server-tau", 0, "> 0"),
    ("trim-fraction", 0.5, "> 0 and < 0.5"),
    ("trim-fraction", 0, "> 0 and < 0.5"),
    ("malicious-clients", -1, "≥ 0"),
    ("krum-selected", 2.0, "whole number"),
    ("max-client-weight", 0, "> 0 and ≤ 1"),
    ("max-client-weight", 1.5, "> 0 and ≤ 1"),
    ("clip-norm", 0, "a number > 0 or one of 'off', 'median'"),
    ("clip-norm", "mean", "'off', 'median'"),
    ("privacy", "both", "'none', 'central', 'local'"),
    ("noise-multiplier", 0, "> 0"),
    ("privacy-delta", 0, "> 0 and < 1"),
    ("privacy-delta", 1.0, "> 0 and < 1"),
    ("noise-source", "os", "'system', 'seed'"),
    ("noisy-fraction", 1.1, "≥ 0 and ≤ 1"),
    ("noise-rate", -0.1, "≥ 0 and ≤ 1"),
    ("rare-cap", 0, "≥ 1"),
    ("policy", "FedEAS", "'fedeas'"),
    ("beta", -1, "≥ 0"),
    ("beta", math.inf, "≥ 0"),
    ("beta", math.nan, "'auto'"),
    ("beta", False, "'auto'"),
    ("sampler", "euler", "'ddpm', 'ddim', 'dpm-solver++'"),
    ("run-name", "a/b", "letters, digits"),
    ("run-name", "..", "letters, digits"),
    ("run-name", ".hidden", "not first, '.'"),
    ("device", "gpu", "'cuda:' with a number"),
    ("device", "cuda:", "'cuda:' with a number"),
    ("device", "cuda:01", "'cuda:' with a number"),
    ("device", "cuda:٣", "'cuda:' with a number"),
    ("threads", 0, "≥ 1"),
    ("round-timeout", 0.0, "> 0"),
]


def message(values):
    with pytest.raises(UserError) as caught:
        Settings.parse(values)
    return str(caught.value)


@pytest.mark.parametrize(("key", "value", "right"), WRONG, ids=lambda value: str(value)[:12])
def test_a_wrong_value_is_named_with_what_is_allowed(key, value, right):
    text = message({key: value})
    assert text.startswith(f"{key} is ")
    shown = "inf" if value == 10**400 else repr(value)
    assert shown in text.partition(";")[0]  # a whole number may have become 0.0
    assert right in text
    assert text.endswith("allowed.")
    assert text.count(f"{key} is") == 1


def test_all_mistakes_are_told_at_once():
    text = message({"rounds": 0, "alpha": -1.0, "polycy": "none"})
    assert "rounds is 0" in text
    assert "alpha is -1.0" in text
    assert "did you mean 'policy'" in text


@pytest.mark.parametrize(
    ("key", "near"),
    [
        ("num-client", "num-clients"),
        ("num_clients", "num-clients"),
        ("lr", None),
        ("learningrate", "learning-rate"),
        ("Alpha", "alpha"),
        ("", None),
    ],
)
def test_an_unknown_key_suggests_the_nearest(key, near):
    text = message({key: 1})
    assert f"Unknown key {key!r}" in text
    assert (f"did you mean {near!r}" if near else "`fedeas keys`") in text


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("rounds", 10**10, "rounds is 10000000000; at most 1,000,000,000 is allowed"),
        ("batch-size", 2**63, "batch-size is 9223372036854775808; at most 1,000,000,000"),
        ("image-size", 8001, "image-size is 8001; a whole number ≥ 0 and ≤ 8000"),
        ("oui-probe-size", 10**6, "≥ 2 and ≤ 65536"),
        ("threads", 2000, "≥ 1 and ≤ 1024"),
    ],
)
def test_numbers_that_nothing_could_hold_are_refused(key, value, text):
    assert text in message({key: value})


def test_whole_numbers_are_fine_where_a_number_is_due():
    parsed = Settings.parse({"alpha": 1, "beta": 12, "learning-rate": 1, "momentum": 0})
    assert (parsed.alpha, parsed.beta, parsed.learning_rate, parsed.momentum) == (1.0, 12.0, 1.0, 0)
    assert all(type(value) is float for value in (parsed.alpha, parsed.beta, parsed.momentum))


@pytest.mark.parametrize(
    "values",
    [
        {"beta": "auto"},
        {"beta": 0},
        {"beta": 1e6},
        {"num-clients": "auto"},
        {"num-clients": 1_000_000},
        {"seed": 2**63 - 1},
        {"momentum": 0.0},
        {"fraction-train": 1},
        {"device": "cuda"},
        {"device": "cuda:0"},
        {"device": "cuda:12"},
        {"device": "mps"},
        {"run-name": ""},
        {"run-name": "a.b_c-1"},
    ],
)
def test_the_ends_of_each_range_are_allowed(values):
    assert Settings.parse(values).to_flat().items() >= values.items()


@pytest.mark.parametrize("key", ["cache-dir", "output-dir"])
@pytest.mark.parametrize("value", ["runs", "./runs", "../x", "~someone/runs", "."])
def test_relative_directories_are_refused(key, value):
    text = message({key: value})
    assert key in text
    assert repr(str(Path(value))) in text
    assert "absolute" in text


@pytest.mark.parametrize("value", ["~", "~/x", "/x"])
def test_absolute_and_home_directories_are_expanded(value, monkeypatch):
    monkeypatch.setenv("HOME", "/home/of/someone")
    parsed = Settings.parse({"cache-dir": value, "output-dir": value})
    expected = Path(value.replace("~", "/home/of/someone"))
    assert parsed.cache_path == parsed.output_path == expected


@pytest.mark.parametrize(
    ("values", "mu"),
    [
        ({"strategy": "fedprox"}, 0.01),
        ({"strategy": "fedprox", "proximal-mu": 1}, 1.0),
        ({"strategy": "fedoui"}, 0.0),
        ({"strategy": "fedoui", "proximal-mu": 0.01}, 0.01),
        ({"strategy": "moon", "proximal-mu": 0.5}, 0.5),
        ({"strategy": "scaffold"}, 0.0),
        ({"strategy": "scaffold", "proximal-mu": 0}, 0.0),
    ],
)
def test_the_proximal_term_is_fedproxs_own_and_an_option_elsewhere(values, mu):
    assert Settings.parse(values).mu == mu


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"strategy": "fedprox", "proximal-mu": 0.0}, "proximal-mu is 0, which makes .* FedAvg"),
        ({"strategy": "scaffold", "proximal-mu": 0.1}, "proximal-mu is 0.1, .* set it to 0"),
        ({"strategy": "scaffold", "compression": "int8"}, "compression is 'int8', .* to 'none'"),
        (
            {"privacy": "central"},
            "privacy is 'central', .* 'fedoui' .* fedadam and fedyogi, or set",
        ),
        ({"privacy": "central", "strategy": "krum"}, ".*strategy 'krum' goes by what they send"),
        ({"privacy": "local"}, "privacy is 'local', .* clip-norm is 'off'; set it to a number"),
        ({"privacy": "local", "clip-norm": "median"}, ".*but clip-norm is 'median'"),
        ({"privacy": "local", "clip-norm": 1, "strategy": "scaffold"}, ".*would go without noise"),
        (
            {
                "privacy": "local",
                "clip-norm": 1,
                "generator": "federated",
                "generator-embeddings": "movers",
            },
            ".*set it to 'average'",
        ),
        (
            {"privacy": "local", "clip-norm": 1, "generator": "federated"},
            ".*but generator-clip-norm is 'off'; set it to a number",
        ),
        (
            {
                "privacy": "local",
                "clip-norm": 1,
                "generator": "federated",
                "generator-clip-norm": "median",
            },
            ".*but generator-clip-norm is 'median'",
        ),
        (
            {"privacy": "local", "clip-norm": 1, "model": "resnet18", "norm": "batch"},
            ".*batch statistics .* set norm to 'group'",
        ),
        ({"strategy": "scaffold", "clip-norm": 1.0}, "clip-norm is 1.0, .* without a limit"),
        ({"strategy": "scaffold", "clip-norm": "median"}, "clip-norm is 'median', but"),
        ({"strategy": "krum", "max-client-weight": 0.3}, "max-client-weight is 0.3, .*'krum'"),
        ({"strategy": "scaffold", "max-client-weight": 0.3}, "max-client-weight is 0.3, .*cancel"),
        ({"strategy": "fedmedian", "max-client-weight": 0.3}, ".*does not go by weights"),
        (
            {
                "max-client-weight": 0.3,
                "generator": "federated",
                "generator-embeddings": "movers",
            },
            "max-client-weight is 0.3, .* 'movers' .* to 'average', or max-client-weight to 1",
        ),
    ],
)
def test_no_strategy_runs_as_another_than_its_name(values, words):
    text = message(values)
    assert re.match(words, text)
    assert text.endswith(".")


def test_a_generator_that_is_not_trained_is_held_to_no_limit():
    keys = {"privacy": "local", "clip-norm": 1, "generator": "federated", "policy": "none"}
    assert Settings.parse(keys).generator_clip_norm == "off"
    limited = {"max-client-weight": 0.3, "generator-embeddings": "movers", "policy": "none"}
    assert Settings.parse({"generator": "federated"} | limited).max_client_weight == 0.3


@pytest.mark.parametrize(
    "keys",
    [
        {"privacy": "local", "generator-embeddings": "movers"},
        {"privacy": "central", "strategy": "fedavg", "generator-strategy": "fedalign"},
        {"guidance-scale": 3},
        {"generator-classes": "a,b"},
        {"sampler": "own"},
        {"sampler": "ddim", "sampler-steps": 1001},
        {"generator-revision": "0" * 40},
        {"generator-max-copies": 0.5, "generator-checked": 0},
    ],
)
def test_keys_of_a_generator_contradict_each_other_only_where_it_is_trained(keys):
    limits = {"clip-norm": 1, "generator-clip-norm": 1} if "privacy" in keys else {}
    asked = {"generator": "federated"} | limits | keys
    assert Settings.parse(asked | {"policy": "none"}).policy == "none"
    for trained in ({}, {"policy": "none", "generator-only": True}):
        assert "generator" in message(asked | trained)


@pytest.mark.parametrize(
    "unused",
    [{"strategy": "fedoui"}, {"strategy": "scaffold"}, {"model": "resnet18", "norm": "batch"}],
)
def test_where_a_generator_is_all_that_is_trained_the_classifier_needs_no_limit(unused):
    keys = {"privacy": "central", "generator": "federated", "generator-only": True} | unused
    assert Settings.parse(keys | {"generator-clip-norm": 1}).clip_norm == "off"
    assert "generator-clip-norm is 'off'; set it to a number" in message(keys)


@pytest.mark.parametrize(("model", "layers"), [("cnn", 3), ("resnet18", 9)])
def test_oui_takes_no_more_hidden_layers_than_there_are(model, layers):
    assert Settings.parse({"model": model, "oui-layers": layers}).oui_layers == layers
    with pytest.raises(UserError, match=f"oui-layers is {layers + 1}, but {model} has {layers}"):
        Settings.parse({"model": model, "oui-layers": layers + 1})


def test_settings_cannot_be_changed():
    with pytest.raises(ValueError, match="frozen"):
        Settings.parse({}).alpha = 1.0


TEXT = st.text(max_size=8)
VALUES = st.one_of(
    st.booleans(),
    st.integers(),
    st.integers(0, 40),
    st.floats(),
    st.floats(0, 1),
    TEXT,
    st.sampled_from(["auto", "none", "~/x", "/x", "cpu", "cnn", "iid", "\ud800"]),
    st.none(),
    st.lists(st.integers(), max_size=2),
    st.just(10**400),
)


@given(st.dictionaries(st.one_of(st.sampled_from(KEYS), TEXT), VALUES, max_size=5))
@hypothesis_settings(max_examples=150, deadline=None)
def test_any_mapping_parses_or_is_refused_in_words(values):
    try:
        parsed = Settings.parse(values)
    except UserError as error:
        assert str(error).endswith(".")  # noqa: PT017  # either outcome is right
    else:
        assert Settings.parse(parsed.to_flat()) == parsed
        assert parsed.to_flat().items() >= values.items()


def test_to_flat_speaks_kebab_case_and_plain_values():
    flat = Settings.parse({"num-clients": 7, "sampler-steps": 3}).to_flat()
    assert flat["num-clients"] == 7
    assert flat["sampler-steps"] == 3
    assert not [key for key in flat if not re.fullmatch(r"[a-z]+(-[a-z]+)*", key)]
    assert {type(value) for value in flat.values()} <= {bool, int, float, str}


@pytest.mark.parametrize("key", KEYS)
def test_every_key_has_a_meaning_and_allowed_values(key):
    assert Settings.model_fields[key.replace("-", "_")].description
    assert allowed(key)


def test_the_defaults_that_flower_sees_are_the_defaults():
    config = PROJECT["tool"]["flwr"]["app"]["config"]
    defaults = Settings.parse({}).to_flat()
    assert config == defaults
    assert {key: type(value) for key, value in config.items()} == {
        key: type(value) for key, value in defaults.items()
    }


@pytest.mark.parametrize("path", sorted((ROOT / "conf").glob("*.toml")), ids=lambda path: path.stem)
def test_every_preset_parses(path):
    values = read_toml(path)
    assert Settings.parse(values).to_flat().items() >= values.items()


def test_the_digits_preset_is_the_default_job():
    preset = Settings.parse(read_toml(ROOT / "conf" / "digits.toml")).to_flat()
    assert preset | {"num-clients": "auto"} == Settings.parse({}).to_flat()


def test_every_dependency_is_switched_off_for_flower():
    project = PROJECT["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    names = sorted(re.match(r"[A-Za-z0-9._-]+", requirement)[0] for requirement in wanted)
    overrides = PROJECT["tool"]["uv"]["override-dependencies"]
    assert sorted(overrides) == [f"{name} ; python_version < '0'" for name in names]


def test_a_file_is_read_as_it_stands(tmp_path):
    path = tmp_path / "a.toml"
    path.write_text('alpha = 1\nbeta = "auto"\n', encoding="utf-8")
    assert read_toml(path) == {"alpha": 1, "beta": "auto"}


@pytest.mark.parametrize(
    "content", [b"alpha", b"alpha = 1\nalpha = 2", b"\xff\xfe", b"seed = " + b"9" * 5_000]
)
def test_a_file_that_is_not_toml_is_refused(tmp_path, content):
    path = tmp_path / "a.toml"
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"a\.toml is not valid TOML"):
        read_toml(path)


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(UserError, match=r"none\.toml cannot be read: No such file"):
        read_toml(tmp_path / "none.toml")
    with pytest.raises(UserError, match="cannot be read: Is a directory"):
        read_toml(tmp_path)


def test_tables_in_a_file_are_unknown_keys(tmp_path):
    path = tmp_path / "a.toml"
    path.write_text("[data]\nalpha = 1\n", encoding="utf-8")
    assert "Unknown key 'data'" in message(read_toml(path))


OWN = {"dataset": "own", "classes": "a, b", "image-size": 8, "image-channels": 3}


def test_own_data_are_described_without_being_seen():
    settings = Settings.parse(OWN)
    assert settings.class_list == ("a", "b")
    assert settings.own_shape == (8, 8, 3)
    assert Settings.parse({}).class_list == ()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"classes": ""}, "the server cannot look at the images; set classes."),
        ({"image-size": 0, "image-channels": 0}, "set image-size and image-channels."),
        ({"train-samples": 5}, "train-samples cannot be had with dataset 'own'"),
        ({"test-samples": 5}, "test-samples cannot be had with dataset 'own'"),
        ({"noisy-fraction": 0.5, "rare-fraction": 0.5}, "noisy-fraction and rare-fraction cannot"),
        ({"classes": "a"}, "classes is 'a'; at least two different names"),
        ({"classes": "a,a"}, "classes is 'a,a'; at least two different names"),
        ({"classes": "a,,b"}, "classes is 'a,,b'; at least two different names"),
        ({"dataset-subset": "x"}, "data-path names the folder of one subset; leave it empty"),
        ({"dataset": "digits", "test-dataset": "/x"}, "the dataset 'digits' has a test set of its"),
    ],
)
def test_own_data_that_a_run_cannot_use_are_refused(changes, words):
    with pytest.raises(UserError) as caught:
        Settings.parse(OWN | changes)
    assert words in str(caught.value)


def test_a_test_set_of_the_server_may_be_a_part():
    assert Settings.parse(OWN | {"test-dataset": "/x", "test-samples": 5}).test_samples == 5


def test_another_dataset_is_read_in_the_same_manner():
    settings = Settings.parse(OWN | {"test-dataset": "/x", "seed": 3})
    other = settings.reading("/y")
    assert (other.dataset, other.test_dataset, other.train_samples) == ("/y", "", 0)
    assert (other.class_list, other.own_shape, other.seed) == (("a", "b"), (8, 8, 3), 3)


def test_the_subset_is_kept_for_the_same_dataset_alone():
    settings = Settings.parse({"dataset": "/x", "dataset-subset": "blood"})
    assert settings.reading("/x").dataset_subset == "blood"
    assert settings.reading("/y").dataset_subset == ""
