"""A grid as the user writes it."""

import pytest

from fedeas_app.comparison.grid import Grid, read_grid
from fedeas_app.errors import UserError

WHOLE = """
config = "fashion-mnist"
baseline = {strategy = "fedavg", policy = "none"}
target = 0.8
[set]
rounds = 20
[[grid]]
strategy = ["fedavg", "fedoui"]
seed = [0, 1]
[[grid]]
policy = "fedeas"
beta = [2, 6]
"""


@pytest.fixture
def written(tmp_path):
    def write(text):
        path = tmp_path / "grid.toml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_a_grid_is_the_union_of_its_blocks_products(written):
    grid = read_grid(written(WHOLE))
    assert (grid.config, grid.target) == ("fashion-mnist", 0.8)
    assert grid.baseline == {"strategy": "fedavg", "policy": "none"}
    assert list(grid.combinations()) == [
        {"rounds": 20, "strategy": "fedavg", "seed": 0},
        {"rounds": 20, "strategy": "fedavg", "seed": 1},
        {"rounds": 20, "strategy": "fedoui", "seed": 0},
        {"rounds": 20, "strategy": "fedoui", "seed": 1},
        {"rounds": 20, "policy": "fedeas", "beta": 2},
        {"rounds": 20, "policy": "fedeas", "beta": 6},
    ]


def test_without_blocks_there_is_one_cell(written):
    assert list(read_grid(written("[set]\nrounds = 3")).combinations()) == [{"rounds": 3}]


def test_a_block_wins_over_what_is_shared():
    grid = Grid(shared={"beta": 12}, blocks=[{}, {"beta": [2]}])
    assert [cell["beta"] for cell in grid.combinations()] == [12, 2]


def test_flags_add_to_every_block_and_override():
    grid = Grid(blocks=[{"seed": [0], "beta": [2]}, {"seed": [0]}]).with_varied({"seed": [5, 6]})
    assert [block["seed"] for block in grid.blocks] == [[5, 6], [5, 6]]
    assert grid.with_shared({"beta": 6}).shared == {"beta": 6}
    assert grid.with_comparison({}, None).target is None
    assert grid.with_comparison({"beta": 2}, 0.5).target == 0.5


def test_a_shared_key_that_every_block_gives_would_change_nothing():
    with pytest.raises(
        UserError, match=r"seed is to be 3 .* but the grid varies it; .*--vary seed"
    ):
        Grid(blocks=[{"seed": [0]}, {"seed": [1]}]).with_shared({"seed": 3})


def test_what_is_written_is_read_again(written):
    grid = read_grid(written(WHOLE)).complete({"rounds": 3, "alpha": 0.3, "run-name": ""})
    again = read_grid(written(grid.to_toml()))
    assert again.shared == {"rounds": 20, "alpha": 0.3}
    assert list(again.combinations()) == list(grid.combinations())
    assert (again.config, again.baseline, again.target) == (None, grid.baseline, grid.target)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("grid = [", "is not valid TOML"),
        ("rounds = 3", "has 'rounds' at its top level"),
        ("config = 3", "has config = 3"),
        ("target = 80", "target is 80; an accuracy above 0 and up to 1 is allowed: write 0.8 for"),
        ("target = 800", r"up to 1 is allowed\."),
        ("", "is empty; write what is to be compared"),
        ("target = true", "target is True"),
        ("set = 3", "has a set that is not a table"),
        ("[set]\nseed = [1, 2]", "has a set that is not a table of single values"),
        ("[grid]\nseed = [1]", r"write \[\[grid\]\]"),
        ("grid = []", "nothing to compare"),
        ("[[grid]]\nseed = []", r"varies seed over \[\]"),
        ("[[grid]]\nseed = [[1]]", r"varies seed over \[\[1\]\]"),
        ("[[grid]]\nseed = 2025-01-31", "varies seed over"),
        ("baseline = 'fedavg'", "has a baseline that is not a table"),
    ],
)
def test_mistakes_are_named(written, text, words):
    with pytest.raises(UserError, match=words):
        read_grid(written(text))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(UserError, match="cannot be read"):
        read_grid(tmp_path / "none.toml")
