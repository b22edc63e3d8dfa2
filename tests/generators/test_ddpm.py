"""Sampling: one image, one seed; what addresses the cache; directories of every bad kind."""

import hashlib
import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from fedeas_app.errors import UserError
from fedeas_app.generators.sampling import Recipe, make_sampler
from fedeas_app.generators.trainer import Training
from fedeas_app.generators.training import train

SAMPLERS = [("ddpm", 5), ("ddim", 3), ("dpm-solver++", 3)]
LABELS = np.array([0, 1, 2, 2, 1, 0, 1])
SEEDS = np.array([10, 11, 12, 13, 14, 15, 2**63 - 1])
WEIGHTS = "unet/diffusion_pytorch_model.safetensors"
UNET = "unet/config.json"
SCHEDULER = "scheduler/scheduler_config.json"


def apart(one, other):
    return int(np.abs(one.astype(int) - other.astype(int)).max())


@pytest.fixture(scope="module", params=SAMPLERS, ids=lambda param: param[0])
def sampled(request, trained, ddpm):
    """A sampler's options and its images of LABELS and SEEDS, in batches of four."""
    sampler, steps = request.param
    options = {"sampler": sampler, "steps": steps}
    return options, ddpm(trained, **options).generate(LABELS, SEEDS)


def test_images_are_bytes_in_the_order_asked(sampled):
    _, images = sampled
    assert images.dtype == np.uint8
    assert images.shape == (7, 8, 8, 1)
    assert len({image.tobytes() for image in images}) == 7
    assert images.min() < 64  # the range is used
    assert images.max() > 192


def test_the_same_request_gives_the_same_bits(sampled, trained, ddpm):
    options, images = sampled
    assert np.array_equal(ddpm(trained, **options).generate(LABELS, SEEDS), images)


# Another batch size may take another matrix kernel, whose sums round differently: on a CPU that
# moves a pixel by at most one of 256 grey levels.


def test_an_image_alone_is_the_image_in_a_batch(sampled, trained, ddpm):
    options, images = sampled
    for row in (0, 5, 6):
        alone = ddpm(trained, **options).generate(LABELS[row : row + 1], SEEDS[row : row + 1])
        assert apart(alone[0], images[row]) <= 1


def test_the_place_in_the_batch_does_not_matter(sampled, trained, ddpm):
    options, images = sampled
    order = np.array([6, 2, 0, 1, 5, 3, 4])
    shuffled = ddpm(trained, **options).generate(LABELS[order], SEEDS[order])
    assert apart(shuffled, images[order]) <= 1


def test_the_batch_size_does_not_matter(sampled, trained, ddpm):
    options, images = sampled
    for batch_size in (1, 100):
        other = ddpm(trained, **options, batch_size=batch_size).generate(LABELS, SEEDS)
        assert apart(other, images) <= 1


def test_label_and_seed_both_matter(sampled, trained, ddpm):
    options, images = sampled
    generator = ddpm(trained, **options)
    assert apart(generator.generate(np.array([1]), SEEDS[:1])[0], images[0]) > 1
    assert apart(generator.generate(LABELS[:1], np.array([99]))[0], images[0]) > 1


def test_the_global_stream_neither_matters_nor_moves(sampled, trained, ddpm):
    options, images = sampled
    torch.manual_seed(1234)
    state = torch.get_rng_state()
    again = ddpm(trained, **options).generate(LABELS, SEEDS)
    assert np.array_equal(again, images)
    assert torch.equal(torch.get_rng_state(), state)


def test_every_batch_is_reported_when_it_is_done(trained, ddpm):
    seen = []
    images = ddpm(trained).generate(LABELS, SEEDS, lambda *batch: seen.append(batch))
    assert [batch for batch, _ in seen] == [slice(0, 4), slice(4, 7)]
    assert np.array_equal(np.concatenate([part for _, part in seen]), images)


def test_nothing_asked_nothing_made(trained, ddpm):
    images = ddpm(trained).generate(np.empty(0, np.int64), np.empty(0, np.int64))
    assert images.shape == (0, 8, 8, 1)


@pytest.mark.parametrize(("level", "pixel"), [(-1, 0), (0, 128), (1, 255), (-7, 0), (7, 255)])
def test_minus_one_to_one_becomes_0_to_255(trained, ddpm, monkeypatch, level, pixel):
    generator = ddpm(trained)
    monkeypatch.setattr(
        type(generator), "_denoise", lambda *_: torch.full((1, 1, 8, 8), float(level))
    )
    assert (generator.generate(LABELS[:1], SEEDS[:1]) == pixel).all()


def test_what_it_says_of_itself(trained, ddpm):
    generator = ddpm(trained)
    assert generator.name == "'mine'"
    assert generator.num_classes == 3  # the null label is none
    assert generator.class_names == ("class 0", "class 1", "class 2")
    assert generator.image_shape == (8, 8, 1)


def test_without_a_card_it_has_no_names(copied, ddpm):
    (copied / "card.json").unlink()
    assert ddpm(copied).class_names is None


def test_one_number_is_a_square(copied, ddpm, edit):
    edit(copied / UNET, sample_size=16)
    assert ddpm(copied).image_shape == (16, 16, 1)


def test_a_batch_size_of_zero_is_found(trained, ddpm):
    generator, seen = ddpm(trained, batch_size=0), []
    generator.generate(LABELS, SEEDS, lambda *batch: seen.append(batch))
    assert [batch for batch, _ in seen] == [slice(0, 7)]  # a CPU's 128


def test_the_network_is_tried_without_a_trace(trained, ddpm):
    generator = ddpm(trained, guidance=2.0)
    unet = generator._load_unet(torch.float32)
    counts = []
    unet.register_forward_pre_hook(lambda _, args: counts.append(len(args[0])))
    generator._try(unet, torch.device("cpu"), 3)
    ddpm(trained)._try(unet, torch.device("cpu"), 3)
    assert counts == [6, 3]  # guidance runs twice as many


# --- folded pixels ---


@pytest.fixture(scope="module")
def folded(_micro_preset, make_split, tmp_path_factory):
    training = Training("micro", 50, 6, 0, "cpu", unshuffle=2)
    split = make_split(shape=(8, 12, 3))
    return train(split, training, tmp_path_factory.mktemp("folded") / "generator")


def test_a_network_of_folded_pixels_makes_whole_images(folded, ddpm):
    generator = ddpm(folded)
    assert generator.image_shape == (8, 12, 3)
    images = generator.generate(LABELS, SEEDS)
    assert images.shape == (7, 8, 12, 3)
    assert len({image.tobytes() for image in images}) == 7
    # Neighbours come from different channels: were they put together wrongly, columns of one
    # parity would not follow from the card's blocks.
    network = generator._load_unet(torch.float32)
    walk = generator._denoise(network, torch.from_numpy(LABELS[:4]), SEEDS[:4]).numpy()
    pixels = ((walk.clip(-1, 1) + 1) * 127.5).round().astype(np.uint8)
    for row, column in [(0, 0), (0, 1), (1, 0), (1, 1)]:
        channels = [colour * 4 + row * 2 + column for colour in range(3)]
        seen = images[:4, row::2, column::2]
        assert apart(seen, pixels[:, channels].transpose(0, 2, 3, 1)) <= 1


def test_folding_changes_the_digest(folded, ddpm, edit):
    one = ddpm(folded).digest
    edit(folded / "card.json", **{"pixel-unshuffle": 1})
    other = ddpm(folded)
    assert other.image_shape == (4, 6, 12)
    assert other.digest != one
    edit(folded / "card.json", **{"pixel-unshuffle": 2})
    assert ddpm(folded).digest == one


# --- guidance ---


def test_zero_and_one_use_no_guidance(trained, ddpm):
    one, zero = (ddpm(trained, guidance=scale) for scale in (1.0, 0.0))
    assert one.digest == zero.digest == ddpm(trained).digest
    images = ddpm(trained).generate(LABELS, SEEDS)
    assert np.array_equal(one.generate(LABELS, SEEDS), images)
    assert np.array_equal(zero.generate(LABELS, SEEDS), images)


def test_guidance_changes_images_and_digest(trained, ddpm):
    digests = {ddpm(trained, guidance=scale).digest for scale in (1.0, 1.5, 4.0)}
    assert len(digests) == 3
    guided = ddpm(trained, guidance=4.0).generate(LABELS, SEEDS)
    assert apart(guided, ddpm(trained).generate(LABELS, SEEDS)) > 1


def test_a_guided_image_does_not_depend_on_its_neighbours(trained, ddpm):
    images = ddpm(trained, guidance=3.0).generate(LABELS, SEEDS)
    alone = ddpm(trained, guidance=3.0).generate(LABELS[5:6], SEEDS[5:6])
    assert apart(alone[0], images[5]) <= 1


def test_guidance_needs_a_null_label(copied, ddpm, edit):
    edit(copied / "card.json", **{"null-label": None})
    assert ddpm(copied, guidance=0).num_classes == 4
    text = refusal(lambda: ddpm(copied, guidance=2.5))
    assert "guidance-scale is 2.5" in text
    assert "--label-dropout" in text


# --- precision ---


def test_bfloat16_makes_nearly_the_same_images(trained, ddpm):
    full = ddpm(trained, sampler="ddim", steps=10).generate(LABELS, SEEDS).astype(int)
    half = ddpm(trained, sampler="ddim", steps=10, precision="bfloat16").generate(LABELS, SEEDS)
    assert half.dtype == np.uint8
    # A bfloat16 keeps 8 bits: each of about ten layers is off by up to 0.2 per cent, the noise by
    # some 2 per cent at most, and so is the image: 2 per cent of 255 levels on average.
    assert 0 < np.abs(half - full).mean() < 5


def test_precision_is_in_the_digest(trained, ddpm):
    digests = {ddpm(trained, precision=p).digest for p in ("float32", "bfloat16", "float16")}
    assert len(digests) == 3


@pytest.mark.parametrize("fast", [True, False])
def test_auto_is_the_precision_of_the_device(trained, ddpm, monkeypatch, fast):
    on_cpu = {p: ddpm(trained, precision=p).digest for p in ("float32", "bfloat16")}
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda **_: fast)
    assert ddpm(trained, device="cuda").digest == on_cpu["bfloat16" if fast else "float32"]
    assert ddpm(trained, device="cuda", precision="float32").digest == on_cpu["float32"]


def test_zero_steps_take_the_default_of_the_sampler(trained, ddpm):
    for sampler, steps in [("ddpm", 1000), ("ddim", 50), ("dpm-solver++", 20)]:
        by_default = ddpm(trained, sampler=sampler, steps=0)
        assert by_default.digest == ddpm(trained, sampler=sampler, steps=steps).digest


# --- the digest ---


def test_the_digest_ignores_what_leaves_pixels_alone(trained, copied, ddpm):
    one = ddpm(trained).digest
    assert len(one) == 64
    assert ddpm(trained, batch_size=1).digest == one
    assert ddpm(trained, guidance=0).digest == one
    assert ddpm(trained, precision="float32").digest == one  # what auto is on a CPU
    assert ddpm(trained, name="other").digest == one
    assert ddpm(copied).digest == one  # another place, the same content
    (copied / "card.json").unlink()
    assert ddpm(copied).digest == one


@pytest.mark.parametrize(("sampler", "steps"), SAMPLERS)
def test_the_digest_is_the_same_whoever_tells_what_the_scheduler_is(
    trained, ddpm, sampler, steps, tmp_path
):
    """Diffusers itself, asked here, or the cache: images of earlier versions stay valid."""
    config, unet = (json.loads((trained / name).read_text()) for name in (SCHEDULER, UNET))
    scheduler = make_sampler(config, Recipe(sampler, steps))
    shown = {key: value for key, value in scheduler.config.items() if key[0] != "_"}
    recipe = {"sampler": sampler, "steps": steps, "guidance": 1.0, "null_label": None}
    weights = hashlib.sha256((trained / WEIGHTS).read_bytes()).hexdigest()
    parts = {"weights": weights, "unet": unet, "scheduler": [type(scheduler).__name__, shown],
             "unshuffle": 1, "recipe": recipe, "precision": "float32"}  # fmt: skip
    expected = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
    for _ in ("by diffusers", "from the cache"):
        generator = ddpm(trained, sampler=sampler, steps=steps, cache=str(tmp_path))
        assert generator.digest == expected
        assert len(list(tmp_path.glob("schedulers/*/description.json"))) == 1


def test_the_digest_changes_with_sampler_and_steps(trained, ddpm):
    digests = {
        ddpm(trained, sampler=sampler, steps=steps).digest
        for sampler in ("ddpm", "ddim", "dpm-solver++")
        for steps in (3, 4)
    }
    assert len(digests) == 6


def test_the_digest_changes_with_the_weights(trained, copied, ddpm):
    weights = load_file(copied / WEIGHTS)
    weights["conv_out.bias"] += 1e-3
    save_file(weights, copied / WEIGHTS)
    assert ddpm(copied).digest != ddpm(trained).digest


@pytest.mark.parametrize(
    ("file", "change"),
    [(UNET, {"norm_eps": 1e-4}), (SCHEDULER, {"beta_schedule": "linear"})],
)
def test_the_digest_changes_with_the_configurations(trained, copied, ddpm, edit, file, change):
    edit(copied / file, **change)
    assert ddpm(copied).digest != ddpm(trained).digest


def test_the_digest_is_of_the_solver_in_use(trained, ddpm, monkeypatch):
    """Were the code to make the solver otherwise, no image made before would be served."""
    solver, other = ({"sampler": sampler} for sampler in ("dpm-solver++", "ddim"))
    before = ddpm(trained, **solver).digest, ddpm(trained, **other).digest
    monkeypatch.setattr("fedeas_app.generators.schedulers._LAMBDA_MIN", -5.0)
    assert ddpm(trained, **solver).digest != before[0]
    assert ddpm(trained, **other).digest == before[1]


def test_it_tells_how_it_draws(trained, ddpm):
    assert ddpm(trained).how == "ddim, 3 steps, float32"
    assert ddpm(trained, sampler="ddpm", steps=0, precision="bfloat16").how == (
        "ddpm, 1000 steps, bfloat16"
    )


# --- what is refused ---


def refusal(make):
    with pytest.raises(UserError) as caught:
        make()
    text = str(caught.value)
    assert "'mine'" in text
    assert "\n" not in text
    return text


@pytest.mark.parametrize(("sampler", "steps"), SAMPLERS)
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_values_that_are_not_finite_never_become_pixels(copied, ddpm, sampler, steps, value):
    weights = load_file(copied / WEIGHTS)
    weights["conv_out.bias"][:] = value
    save_file(weights, copied / WEIGHTS)
    generator, seen = ddpm(copied, sampler=sampler, steps=steps), []
    text = refusal(lambda: generator.generate(LABELS, SEEDS, lambda *batch: seen.append(batch)))
    assert "not finite" in text
    assert "at step 1 " in text
    assert f"({sampler}, {steps} steps, float32)" in text
    assert 'generation-precision = "float32"' in text
    assert not seen


@pytest.mark.parametrize("classes", [None, 0, "removed", 2.5])
def test_a_network_without_classes(copied, ddpm, edit, classes):
    edit(copied / UNET, num_class_embeds=classes)
    text = refusal(lambda: ddpm(copied))
    assert "not class-conditional" in text
    assert "fedeas generator train" in text


@pytest.mark.parametrize("file", [UNET, SCHEDULER])
@pytest.mark.parametrize("content", [None, b"{", b"", b"\xff", b"[1]", b"3"])
def test_a_configuration_that_is_missing_or_broken(copied, ddpm, file, content):
    (copied / file).unlink()
    if content is not None:
        (copied / file).write_bytes(content)
    assert str(copied / file) in refusal(lambda: ddpm(copied))


def test_a_directory_that_does_not_exist(tmp_path, ddpm):
    text = refusal(lambda: ddpm(tmp_path / "none"))
    assert "none/unet/config.json" in text
    assert "fedeas generator train" in text


@pytest.mark.parametrize("change", [{"sample_size": None}, {"sample_size": "removed"},
                                    {"sample_size": [8]}, {"out_channels": "removed"}])  # fmt: skip
def test_a_network_that_does_not_say_what_it_draws(copied, ddpm, edit, change):
    edit(copied / UNET, **change)
    assert "sample_size and out_channels" in refusal(lambda: ddpm(copied))


@pytest.mark.parametrize(
    "change",
    [{"null-label": 2}, {"null-label": "3"}, {"pixel-unshuffle": 3}, {"classes": "abc"}],
)
def test_a_card_that_contradicts_the_network(copied, ddpm, edit, change):
    edit(copied / "card.json", **change)
    text = refusal(lambda: ddpm(copied))
    assert str(copied / "card.json") in text
    assert next(iter(change)) in text
    assert "make the generator again" in text


def test_a_card_that_is_not_json(copied, ddpm):
    (copied / "card.json").write_bytes(b"{")
    assert str(copied / "card.json") in refusal(lambda: ddpm(copied))


def test_pickled_weights_are_never_opened(copied, ddpm):
    weights = load_file(copied / WEIGHTS)
    (copied / WEIGHTS).unlink()
    torch.save(weights, copied / "unet/diffusion_pytorch_model.bin")
    assert "has no weights at" in refusal(lambda: ddpm(copied))


def test_more_steps_than_it_was_trained_with(copied, ddpm, edit):
    edit(copied / SCHEDULER, num_train_timesteps=100)
    assert ddpm(copied, steps=100)
    text = refusal(lambda: ddpm(copied, steps=101))
    assert "sampler-steps is 101" in text
    assert "100 steps" in text


@pytest.mark.parametrize("steps", [10**9, 0, -1, "1000", 1.5, None, True])
def test_a_number_of_steps_that_nobody_trained_with(copied, ddpm, edit, steps):
    edit(copied / SCHEDULER, num_train_timesteps=steps)
    assert f"trained with {steps!r} steps" in refusal(lambda: ddpm(copied))


def test_more_steps_than_the_solver_tells_apart(trained, ddpm):
    text = refusal(lambda: ddpm(trained, sampler="dpm-solver++", steps=1000))
    assert "sampler-steps is 1000" in text
    assert "0 for 20" in text


def _without_a_tensor(path):
    weights = load_file(path)
    del weights["conv_in.weight"]
    save_file(weights, path)


def _of_another_shape(path):
    weights = load_file(path)
    weights["conv_in.weight"] = weights["conv_in.weight"][:1].clone()
    save_file(weights, path)


@pytest.mark.parametrize(
    "damage",
    [
        _without_a_tensor,
        _of_another_shape,
        lambda path: path.write_bytes(path.read_bytes()[:5_000]),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(b"\x80\x04 a pickle under a wrong name"),
    ],
)
def test_damaged_weights(copied, ddpm, damage):
    damage(copied / WEIGHTS)
    generator = ddpm(copied)
    text = refusal(lambda: generator.generate(LABELS, SEEDS))
    assert "weights" in text
    assert str(copied) in text


def test_a_device_that_is_not_there(trained, ddpm):
    with pytest.raises(UserError, match="device is 'cuda:99'"):
        ddpm(trained, device="cuda:99").generate(LABELS, SEEDS)


def short_of_memory(generator, monkeypatch, fits):
    """Let batches of more than ``fits`` images fail as a full device does."""
    denoise = generator._denoise

    def limited(unet, labels, seeds):
        if len(seeds) > fits:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return denoise(unet, labels, seeds)

    monkeypatch.setattr(generator, "_denoise", limited)


def test_batches_are_halved_until_they_fit(trained, ddpm, monkeypatch):
    labels, seeds = np.arange(11) % 3, np.arange(11)
    whole = ddpm(trained, batch_size=8).generate(labels, seeds)
    short = ddpm(trained, batch_size=8)
    short_of_memory(short, monkeypatch, fits=3)
    sizes = []
    images = short.generate(labels, seeds, lambda rows, made: sizes.append(len(made)))
    assert sizes == [2, 2, 2, 2, 2, 1]  # 8, then 4, then 2, and 2 from then on
    assert apart(images, whole) <= 1


def test_a_device_too_small_for_one_image_is_a_sentence(trained, ddpm, monkeypatch):
    short = ddpm(trained, batch_size=4)
    short_of_memory(short, monkeypatch, fits=0)
    with pytest.raises(UserError, match=r"does not fit into the memory .* one image at a time"):
        short.generate(np.array([0, 1, 2]), np.arange(3))
