"""One client: its images, what it makes, its probe batch."""

import shutil

import numpy as np
import pytest
import torch
from flwr.app import Context, RecordDict
from own_data import NAMES, OWN_KEYS, write_site

from fedeas_app import budget, seeds
from fedeas_app.client import Client, Order
from fedeas_app.data import load_split, partition
from fedeas_app.errors import UserError

ORDER = Order(beta=12.0)


def context(settings, **node_config):
    config = {key.replace("_", "-"): value for key, value in node_config.items()}
    return Context(1, 77, config, RecordDict(), settings.to_flat())


def owned(settings, k, clients=4):
    train = load_split(settings, "train")
    rows = partition(train.labels, clients, settings)[k]
    return train.images[rows], train.labels[rows]


def test_a_client_is_read_from_its_context(configure):
    settings = configure(seed=5)
    client = Client.from_context(context(settings, partition_id=2, num_partitions=4))
    assert (client.partition_id, client.num_partitions) == (2, 4)
    assert client.settings == settings


@pytest.mark.parametrize(
    ("node_config", "words"),
    [
        ({}, "has no partition"),
        ({"partition_id": 0}, "has no partition"),
        ({"num_partitions": 3}, "has no partition"),
        (
            {"partition_id": "first", "num_partitions": 3},
            "partition-id is 'first'; a whole number ≥ 0",
        ),
        ({"partition_id": 3, "num_partitions": 3}, "partition-id is 3.* 0 to 2 is allowed"),
        (
            {"partition_id": -1, "num_partitions": 3},
            "partition-id is -1; a whole number ≥ 0 is allowed",
        ),
    ],
)
def test_a_node_without_a_possible_partition_is_told_so(configure, node_config, words):
    with pytest.raises(UserError, match=words):
        Client.from_context(context(configure(), **node_config))


def test_invalid_settings_are_named_at_the_client_too(configure):
    broken = context(configure(), partition_id=0, num_partitions=2)
    broken.run_config = {"rounds": 0}
    with pytest.raises(UserError, match="rounds is 0"):
        Client.from_context(broken)


def test_clients_share_the_training_set_out_among_themselves(configure):
    settings = configure()
    clients = [Client(settings, k, 4) for k in range(4)]
    assert sorted(np.concatenate([c.indices for c in clients]).tolist()) == list(range(300))
    for k, client in enumerate(clients):
        labels = owned(settings, k)[1]
        assert client.labels.tolist() == labels.tolist()
        assert client.counts.tolist() == [[int((labels == c).sum()) for c in range(10)]]
        assert client.dataset.image_shape == (8, 8, 1)


@pytest.mark.parametrize("policy", budget.POLICIES)
def test_a_client_needs_its_row_of_the_allocation(configure, policy):
    settings = configure(policy=policy)
    clients = [Client(settings, k, 4) for k in range(4)]
    counts = np.concatenate([c.counts for c in clients])
    expected = budget.allocate(counts, policy, beta=9.0)
    shares = expected.sum(axis=1).tolist()
    for client, share, row in zip(clients, shares, expected, strict=True):
        assert client.need(Order(beta=9.0, share=share)).tolist() == row.tolist()


def test_examples_are_the_real_and_the_needed_synthetic_images(configure, fake_generator):
    settings = configure(policy="full", seed=1)
    client = Client(settings, 1, 4)
    examples = client.examples(ORDER)
    images, labels = owned(settings, 1)
    need = client.counts[0].max() - client.counts[0]
    pixels = examples.images.numpy().transpose(0, 2, 3, 1)
    assert np.array_equal(pixels[: len(labels)], images)
    assert examples.labels[: len(labels)].tolist() == labels.tolist()
    made = examples.labels[len(labels) :].tolist()
    assert made == np.repeat(np.arange(10), need).tolist()
    # Every image is the generator's for its label, and no two are alike.
    known = {
        fake_generator.image(label, seed).tobytes(): label
        for labels, seeds in fake_generator.asked
        for label, seed in zip(labels.tolist(), seeds.tolist(), strict=True)
    }
    synthetic = [image.tobytes() for image in pixels[len(labels) :]]
    assert [known[image] for image in synthetic] == made
    assert len(set(synthetic)) == len(synthetic) == need.sum()


def test_without_need_no_generator_is_opened(configure, monkeypatch):
    def refuse(settings):
        raise AssertionError

    monkeypatch.setattr("fedeas_app.client.open_generator", refuse)
    synthesis = Client(configure(policy="none"), 0, 4).synthesise(Order())
    assert synthesis.images.shape == (0, 8, 8, 1)
    assert (len(synthesis.labels), synthesis.made) == (0, 0)


def test_images_are_made_once_and_made_anew_when_the_cache_is_gone(
    configure, fake_generator, tmp_path
):
    settings = configure(policy="fedeas", cache_dir=str(tmp_path / "cache"))
    first = Client(settings, 2, 4).synthesise(ORDER)
    again = Client(settings, 2, 4).synthesise(ORDER)
    assert first.made == len(first.labels) > 0
    assert again.made == 0
    shutil.rmtree(settings.cache_path / "synthetic")
    anew = Client(settings, 2, 4).synthesise(ORDER)
    assert anew.made == first.made
    for other in (again, anew):
        assert np.array_equal(first.images, other.images)
        assert np.array_equal(first.labels, other.labels)


def test_the_cache_limit_is_kept(configure, fake_generator, tmp_path):
    settings = configure(policy="full", cache_dir=str(tmp_path / "cache"), cache_limit_gb=1e-9)
    with pytest.raises(UserError, match="do not fit under cache-limit-gb = 1e-09"):
        Client(settings, 2, 4).synthesise(ORDER)


def test_clients_and_seeds_make_different_images(configure, fake_generator):
    images = {
        image.tobytes()
        for seed in (1, 2)
        for k in (0, 1)
        for image in Client(configure(policy="uniform", seed=seed), k, 4)
        .synthesise(Order(12.0, share=20))
        .images
    }
    assert len(images) == 4 * 20


def test_a_generator_for_other_images_is_refused(configure, fake_generator):
    fake_generator.image_shape = (16, 16, 1)
    with pytest.raises(UserError, match=r"16x16 pixels.*8x8 pixels"):
        Client(configure(policy="full"), 0, 4).synthesise(ORDER)


def test_streams_belong_to_a_seed_a_round_and_a_client(configure):
    def draw(seed, server_round, k):
        return int(
            torch.randint(
                2**62, (1,), generator=Client(configure(seed=seed), k, 4).rng(server_round)
            )
        )

    assert draw(1, 2, 3) == draw(1, 2, 3)
    assert len({draw(*key) for key in [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 1, 0)]}) == 5


class Recorder(torch.nn.Module):
    """Gives pre-activations that are the pixels, and keeps what it was shown."""

    def __init__(self):
        super().__init__()
        self.shown = []
        self.modes = []

    def preactivations(self, images):
        self.shown.append(images)
        self.modes.append(self.training)
        return images

    def hidden_layers(self, images):
        yield -self.preactivations(images) - 0.5
        yield images[:, :, :4]


def probe(settings, k, clients=4):
    recorder = Recorder().train()
    value = Client(settings, k, clients).oui(recorder, torch.device("cpu"))
    return value, recorder


def as_pixels(shown):
    return np.rint((shown.numpy().transpose(0, 2, 3, 1) + 2) * 63.75).astype(np.uint8)


def test_probe_is_fixed_for_a_client_and_a_seed(configure):
    def batch(k, **keys):
        return probe(configure(oui_probe_size=8, **keys), k)[1].shown[0]

    assert torch.equal(batch(1), batch(1))
    assert torch.equal(batch(1), batch(1, augment=True))
    assert not torch.equal(batch(1), batch(2))
    assert not torch.equal(batch(1, partitioner="iid"), batch(1, partitioner="iid", seed=1))


def test_clients_of_one_size_choose_different_places(configure):
    settings = configure(oui_probe_size=8, partitioner="iid")
    places = []
    for k in (1, 2):
        own = [image.tobytes() for image in owned(settings, k)[0]]
        assert len(own) == 75
        places.append([own.index(x.tobytes()) for x in as_pixels(probe(settings, k)[1].shown[0])])
    assert places[0] != places[1]


@pytest.mark.parametrize("size", [2, 32, 500])
def test_probe_holds_b_of_the_clients_own_real_images(configure, fake_generator, size):
    settings = configure(oui_probe_size=size, policy="full")
    client = Client(settings, 0, 4)
    client.synthesise(ORDER)
    images, _ = owned(settings, 0)
    own = {image.tobytes() for image in images}
    shown = [image.tobytes() for image in as_pixels(probe(settings, 0)[1].shown[0])]
    assert len(shown) == size
    assert set(shown) <= own
    if size <= len(images):  # no image twice unless there are too few
        distinct = len(own) == len(images)
        assert not distinct or len(set(shown)) == size


def test_oui_is_the_formula_on_the_probe_in_eval_mode(configure):
    value, recorder = probe(configure(oui_probe_size=9), 1)
    assert recorder.modes == [False]
    z = recorder.shown[0].numpy().reshape(9, -1)
    total = 0
    for unit in z.T:
        on = sum(1 for x in unit if x > 0)
        total += min(on, 9 - on)
    assert value == pytest.approx(total / z.shape[1] / 4)  # ⌊9/2⌋ = 4
    assert 0 < value < 1


def test_oui_of_all_layers_is_their_mean(configure):
    value, recorder = probe(configure(oui_probe_size=9, oui_layers="all"), 1)
    assert recorder.modes == [False]
    z = recorder.shown[0].numpy()

    def by_hand(layer):
        on = (layer.reshape(9, -1) > 0).sum(axis=0)
        return np.minimum(on, 9 - on).mean() / 4

    assert value == pytest.approx((by_hand(-z - 0.5) + by_hand(z[:, :, :4])) / 2)


def test_oui_of_the_last_layers_is_their_mean(configure):
    value, _ = probe(configure(oui_probe_size=9, oui_layers=2), 1)
    both, _ = probe(configure(oui_probe_size=9, oui_layers="all"), 1)
    last, _ = probe(configure(oui_probe_size=9, oui_layers=1), 1)
    assert value == both  # the recorder has two layers
    assert last == probe(configure(oui_probe_size=9), 1)[0] != both


def test_a_noisy_client_sees_and_counts_wrong_labels(configure, fake_generator):
    settings = configure(noisy_fraction=1.0, noise_rate=0.5, policy="fedeas")
    client, honest = Client(settings, 1, 4), Client(configure(), 1, 4)
    assert np.array_equal(client.indices, honest.indices)
    assert (client.labels != honest.labels).sum() == round(0.5 * len(honest.labels))
    assert client.counts.tolist() == [np.bincount(client.labels, minlength=10).tolist()]
    need = budget.allocate(client.counts, "fedeas", beta=12.0)[0]
    assert client.need(ORDER).tolist() == need.tolist()
    examples = client.examples(ORDER)
    assert examples.labels[: len(client.labels)].tolist() == client.labels.tolist()


def test_a_rare_client_has_few_images(configure):
    settings = configure(rare_fraction=0.25, rare_cap=7)
    sizes = [len(Client(settings, k, 4).labels) for k in range(4)]
    assert sizes.count(7) == 1
    assert min(sizes) == 7


def test_the_model_is_the_servers_first_one_for_the_same_seed(configure):
    settings = configure(seed=4)
    first, second = (Client(settings, k, 4).model().state_dict() for k in (0, 3))
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert seeds.derive("client", 4, 0) != seeds.derive("client", 4, 3)


def test_a_node_that_splits_the_data_otherwise_than_the_run_is_refused(configure):
    context = Context(
        run_id=1,
        node_id=1,
        node_config={"partition-id": 0, "num-partitions": 5},
        state=RecordDict(),
        run_config=configure(num_clients=4).to_flat(),
    )
    with pytest.raises(UserError, match="num-clients is 4, but this SuperNode's num-partitions is"):
        Client.from_context(context)


def test_a_site_hears_which_of_its_folders_are_empty(configure, tmp_path, caplog):
    site = write_site(tmp_path / "site", [1, 4])
    (site / NAMES[7]).mkdir()
    Client(configure(**OWN_KEYS), 0, 1, site).check()
    line = f"The folder 'kind-seven' of {site} has no image: this class is absent."
    assert caplog.messages == [line]
