"""Pretrained pipelines as generators: tiny ones of random weights, on the digits."""

import shutil

import diffusers
import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny_pipelines import edit_index, save_dit, save_text
from typer.testing import CliRunner

from fedeas_app.commands import app
from fedeas_app.data import load_split
from fedeas_app.errors import UserError
from fedeas_app.generators import open_generator, require_fit
from fedeas_app.generators.pipelines import Pipeline, to_pixels

NAMES = "zero,one,two,three,four,five,six,seven,eight,nine"
LABELS, SEEDS = np.array([7, 1, 3, 1, 0]), np.array([11, 12, 13, 14, 2**62])


@pytest.fixture(scope="session")
def dit(tmp_path_factory):
    names = {number: f"{name}, No. {number}" for number, name in enumerate(NAMES.split(","))}
    return save_dit(tmp_path_factory.mktemp("class") / "dit", names=names)


@pytest.fixture(scope="session")
def text(tmp_path_factory):
    return save_text(tmp_path_factory.mktemp("text") / "sd")


@pytest.fixture
def dit_settings(dit, configure):
    def make(root=dit, **keys):
        fixed = {"generator_classes": NAMES, "guidance_scale": 1, "sampler_steps": 3}
        return configure(generator=str(root), **fixed | keys)

    return make


@pytest.fixture
def text_settings(text, configure):
    def make(root=text, **keys):
        return configure(generator=str(root), **{"sampler_steps": 3} | keys)

    return make


@pytest.fixture(params=["dit", "text"])
def make(request):
    """Return a function that opens either kind."""
    settings = request.getfixturevalue(f"{request.param}_settings")
    return lambda **keys: open_generator(settings(**keys))


def near(one, other):
    """Whether two images are the same but for rounding, and no image is of one colour."""
    return np.abs(one.astype(int) - other.astype(int)).max() <= 1 and one.std() > 3


def far(one, other):
    return np.abs(one.astype(int) - other.astype(int)).mean() > 1


def test_it_fits_the_dataset(make, configure):
    generator, split = make(), load_split(configure(), "train")
    assert isinstance(generator, Pipeline)
    require_fit(generator, split.class_names, split.image_shape)
    images = generator.generate(LABELS, SEEDS)
    assert images.shape == (5, 8, 8, 1)
    assert images.dtype == np.uint8


def test_the_same_bits_again(make):
    assert np.array_equal(make().generate(LABELS, SEEDS), make().generate(LABELS, SEEDS))


def test_an_image_depends_on_its_label_and_seed_alone(make):
    generator = make()
    images = generator.generate(LABELS, SEEDS)
    backwards = generator.generate(LABELS[::-1], SEEDS[::-1])[::-1]
    alone = np.concatenate([generator.generate(LABELS[[i]], SEEDS[[i]]) for i in range(5)])
    pairs = make(generation_batch_size=2).generate(LABELS, SEEDS)
    for others in (backwards, alone, pairs):
        assert near(images, others)


def test_label_and_seed_both_matter(make):
    images = make().generate(np.array([1, 2, 1]), np.array([5, 5, 6]))
    assert far(images[0], images[2])
    assert not np.array_equal(images[0], images[1])


def test_batches_are_reported(make):
    seen = []
    generator = make(generation_batch_size=2)
    images = generator.generate(LABELS, SEEDS, lambda rows, made: seen.append((rows, made.copy())))
    assert [rows for rows, _ in seen] == [slice(0, 2), slice(2, 4), slice(4, 5)]
    assert np.array_equal(np.concatenate([made for _, made in seen]), images)
    assert make().generate(LABELS[:0], SEEDS[:0], lambda *_: seen.append(0)).shape == (0, 8, 8, 1)
    assert len(seen) == 3


def test_a_batch_too_large_is_halved(make, monkeypatch):
    generator, sizes, call = make(), [], Pipeline._call

    def small(self, pipeline, labels, *rest):
        sizes.append(len(labels))
        if len(labels) > 2:
            raise torch.OutOfMemoryError
        return call(self, pipeline, labels, *rest)

    whole = generator.generate(LABELS, SEEDS)
    monkeypatch.setattr(Pipeline, "_call", small)
    assert near(generator.generate(LABELS, SEEDS), whole)
    assert sizes[-3:] == [2, 2, 1]


def test_nothing_global_is_touched(make, capfd):
    before = torch.get_rng_state()
    make().generate(LABELS, SEEDS)
    assert torch.equal(torch.get_rng_state(), before)
    assert capfd.readouterr() == ("", "")


def test_what_diffusers_makes_is_what_comes_out(dit, dit_settings):
    """Against the pipeline as its documentation says to use it."""
    pipeline = diffusers.DiTPipeline.from_pretrained(dit)
    pipeline.set_progress_bar_config(disable=True)
    ids = pipeline.get_label_ids(["seven", "one"])
    streams = [torch.Generator().manual_seed(seed) for seed in (11, 12)]
    images = pipeline(ids, 1.0, streams, num_inference_steps=3, output_type="pil").images
    wanted = [np.asarray(image.convert("L").resize((8, 8), 2)) for image in images]
    made = open_generator(dit_settings(sampler="ddim")).generate(LABELS[:2], SEEDS[:2])
    assert near(made[..., 0], np.stack(wanted))


def test_a_prompt_names_the_class(text, text_settings):
    pipeline = diffusers.StableDiffusionPipeline.from_pretrained(text)
    pipeline.set_progress_bar_config(disable=True)
    pipeline.scheduler = diffusers.DDIMScheduler.from_config(
        pipeline.scheduler.config, clip_sample=False
    )
    streams = [torch.Generator().manual_seed(11)]
    options = {"num_inference_steps": 3, "guidance_scale": 2.0, "output_type": "pil"}
    image = pipeline(["a seven b"], generator=streams, **options).images[0]
    settings = text_settings(
        sampler="ddim", guidance_scale=2, generator_prompt="a {class} b", generator_classes=NAMES
    )
    made = open_generator(settings).generate(LABELS[:1], SEEDS[:1])
    assert near(made[0, ..., 0], np.asarray(image.convert("L").resize((8, 8), 2)))


@pytest.mark.parametrize("sampler", ["ddpm", "ddim", "dpm-solver++", "own"])
def test_every_sampler_of_a_text_pipeline(text_settings, sampler):
    generator = open_generator(text_settings(sampler=sampler))
    images = generator.generate(LABELS, SEEDS)
    assert near(images[3:], generator.generate(LABELS[3:], SEEDS[3:]))


def test_a_dit_cannot_be_given_fresh_noise(dit_settings):
    with pytest.raises(UserError, match="sampler is 'ddpm', which needs fresh noise at every step"):
        open_generator(dit_settings(sampler="ddpm"))


def test_noise_of_unknown_origin_is_refused(dit, dit_settings, tmp_path):
    root = shutil.copytree(dit, tmp_path / "dit")
    edit_index(root, scheduler=["diffusers", "EulerAncestralDiscreteScheduler"])
    diffusers.EulerAncestralDiscreteScheduler().save_pretrained(root / "scheduler")
    generator = open_generator(dit_settings(root, sampler="own"))
    with pytest.raises(UserError, match="sampler is 'own', which needs fresh noise"):
        generator.generate(LABELS, SEEDS)


def test_flow_matching_keeps_its_own_sampler(text_settings, tmp_path):
    flow = diffusers.UniPCMultistepScheduler(
        prediction_type="flow_prediction", use_flow_sigmas=True, flow_shift=3.0
    )
    root = save_text(tmp_path / "flow", flow)
    with pytest.raises(UserError, match=r'UniPCMultistepScheduler.*; set sampler = "own"'):
        open_generator(text_settings(root))
    assert open_generator(text_settings(root, sampler="own")).generate(LABELS, SEEDS).std() > 3


def test_a_consistency_model(configure, tmp_path):
    """Class-conditional as well, without guidance, and with a scheduler that is its own only."""
    unet = diffusers.UNet2DModel(
        sample_size=8, block_out_channels=(8, 8), layers_per_block=1, norm_num_groups=4,
        down_block_types=("DownBlock2D",) * 2, up_block_types=("UpBlock2D",) * 2,
        num_class_embeds=10,
    )  # fmt: skip
    scheduler = diffusers.CMStochasticIterativeScheduler()
    diffusers.ConsistencyModelPipeline(unet, scheduler).save_pretrained(tmp_path / "cm")
    keys = {"generator": str(tmp_path / "cm"), "generator_classes": "9,8,7,6,5,4,3,2,1,0"}
    generator = open_generator(configure(sampler="own", **keys))
    images = generator.generate(LABELS, SEEDS)
    assert near(images[2:4], generator.generate(LABELS[2:4], SEEDS[2:4]))
    with pytest.raises(UserError, match=r"guidance-scale is 2, .* cannot be guided"):
        open_generator(configure(sampler="own", guidance_scale=2, **keys))


@pytest.mark.parametrize(
    "keys",
    [
        {"sampler": "ddim"},
        {"sampler": "own"},
        {"sampler_steps": 4},
        {"guidance_scale": 0.5},
        {"generation_precision": "bfloat16"},
        {"dataset": "digits", "image_size": 9},
        {"generator_classes": NAMES.replace("zero,one", "one,zero")},
    ],
)
def test_the_digest_changes_with_what_changes_pixels(make, keys):
    assert make(**keys).digest != make().digest


@pytest.mark.parametrize(
    "keys",
    [
        {"generation_batch_size": 2},
        {"generation_precision": "float32"},
        {"device": "auto" if not torch.cuda.is_available() else "cpu"},
        {"seed": 5},
        {"train_samples": 100},
        {"pool_dataset": "digits"},
    ],
)
def test_the_digest_does_not_change_with_anything_else(make, keys):
    assert make(**keys).digest == make().digest


def test_it_tells_how_it_draws(make):
    assert make().how == "dpm-solver++, 3 steps, float32"
    assert make(sampler="own", generation_precision="bfloat16").how == "own, 3 steps, bfloat16"


def test_the_digest_is_of_meanings_not_of_spellings(dit_settings):
    by_name, by_number = dit_settings(), dit_settings(generator_classes="0,1,2,3,4,5,6,7,8,9")
    assert open_generator(by_name).digest == open_generator(by_number).digest


def test_the_prompt_changes_the_digest_of_a_text_pipeline_alone(dit_settings, text_settings):
    other = {"generator_prompt": "a drawing of a {class}"}
    for settings, same in ((dit_settings, True), (text_settings, False)):
        one, two = open_generator(settings()), open_generator(settings(**other))
        assert (one.digest == two.digest) is same


def test_defaults_written_out_are_the_same(text_settings):
    plain = open_generator(text_settings(sampler_steps=0))
    spelt = open_generator(text_settings(sampler_steps=20, guidance_scale=7.5))
    assert plain.digest == spelt.digest


def test_the_weights_and_the_place_in_the_digest(dit, dit_settings, tmp_path):
    root = shutil.copytree(dit, tmp_path / "dit")
    assert open_generator(dit_settings(root)).digest == open_generator(dit_settings()).digest
    path = root / "vae/diffusion_pytorch_model.safetensors"
    weights = load_file(path)
    weights["decoder.conv_out.bias"] += 1
    save_file(weights, path)
    assert open_generator(dit_settings(root)).digest != open_generator(dit_settings()).digest


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"generator_classes": ""}, "knows no class '0'; say in generator-classes"),
        ({"generator_classes": "one,two"}, "names 2 classes, but the dataset has 10"),
        ({"generator_classes": NAMES.replace("six", "sixt")}, r"no class 'sixt' \(near: 'six'\)"),
        ({"guidance_scale": 0}, "guided with 4, .* knows 1000 classes, not 10; set guidance-scale"),
        ({"sampler_steps": 1001}, "sampler-steps is 1001"),
    ],
)
def test_what_a_class_conditional_pipeline_cannot_do(dit_settings, keys, message):
    with pytest.raises(UserError, match=message):
        open_generator(dit_settings(**keys))


def test_a_dit_of_a_thousand_classes_is_guided(dit_settings, tmp_path):
    root = save_dit(tmp_path / "large", classes=1000)
    numbers = ",".join(str(100 * label) for label in range(10))
    plain, guided, default = (
        open_generator(dit_settings(root, generator_classes=numbers, guidance_scale=scale))
        for scale in (1, 4, 0)
    )
    assert guided.digest == default.digest != plain.digest
    images = guided.generate(LABELS, SEEDS)
    assert near(images[1:3], guided.generate(LABELS[1:3], SEEDS[1:3]))
    assert not np.array_equal(images, plain.generate(LABELS, SEEDS))


def test_a_prompt_must_name_the_class(text_settings):
    with pytest.raises(UserError, match="generator-prompt is 'a photo', which is the same"):
        open_generator(text_settings(generator_prompt="a photo"))


@pytest.mark.parametrize(
    ("part", "weight", "where"),
    [("transformer", "pos_embed.proj.bias", "at step 1 of 3"),
     ("vae", "decoder.conv_out.bias", "in its decoder")],
)  # fmt: skip
def test_values_that_are_not_finite_are_told(dit, dit_settings, tmp_path, part, weight, where):
    root = shutil.copytree(dit, tmp_path / "dit")
    path = root / part / "diffusion_pytorch_model.safetensors"
    weights = load_file(path)
    weights[weight] *= float("nan")
    save_file(weights, path)
    with pytest.raises(UserError, match=rf"not finite {where} \(dpm-solver\+\+, float32\)"):
        open_generator(dit_settings(root)).generate(LABELS, SEEDS)


def test_an_image_blacked_out_is_refused(text_settings, tmp_path):
    from diffusers.pipelines.stable_diffusion import StableDiffusionSafetyChecker
    from transformers import CLIPConfig

    tiny = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1,
            "num_attention_heads": 1, "image_size": 8, "patch_size": 4}  # fmt: skip
    checker = StableDiffusionSafetyChecker(CLIPConfig(vision_config=tiny, projection_dim=8))
    for thresholds, flagged in ((2.0, False), (-2.0, True)):  # a cosine is between them
        torch.nn.init.constant_(checker.concept_embeds_weights, thresholds)
        torch.nn.init.constant_(checker.special_care_embeds_weights, 2.0)
        root = save_text(tmp_path / str(flagged), safety_checker=checker)
        generator = open_generator(text_settings(root))
        if not flagged:
            assert generator.generate(LABELS, SEEDS).std() > 3
            continue
        with pytest.raises(UserError, match=r"safety checker .* blacked out an image of 'a photo"):
            generator.generate(LABELS, SEEDS)


def test_what_a_pipeline_refuses_is_a_sentence(text_settings, monkeypatch):
    generator = open_generator(text_settings())

    def needs_an_image(*args, **kwargs):
        raise TypeError("image must be passed\nand more")

    monkeypatch.setattr(diffusers.StableDiffusionPipeline, "__call__", needs_an_image)
    with pytest.raises(UserError, match=r"by its classes alone \(image must be passed\)"):
        generator.generate(LABELS, SEEDS)


def test_pixels_of_the_right_size_and_channels():
    image = torch.zeros(1, 4, 4, 3)
    image[..., 0], image[..., 1] = 1.0, 0.5
    assert to_pixels(image, (4, 4, 3))[0, 0, 0].tolist() == [255, 128, 0]
    # ITU-R BT.601: 0.299 * 255 + 0.587 * 127.5
    assert to_pixels(image, (2, 2, 1)).unique().tolist() == [round(0.299 * 255 + 0.587 * 127.5)]
    assert to_pixels(image[..., :1], (4, 4, 3)).unique().tolist() == [255]
    board = (torch.arange(16)[:, None] + torch.arange(16)) % 2
    grey = to_pixels(board.view(1, 16, 16, 1).float(), (4, 4, 1))
    assert abs(int(grey[0, 1, 1, 0]) - 128) <= 16  # an average of both colours, not one of them


def test_the_command_samples_from_a_pipeline(dit, cache_dir, tmp_path):
    """As the documentation says, with a directory given relative to where one is."""
    options = ["generator=" + str(dit), "generator-classes=" + NAMES, "guidance-scale=1",
               "sampler-steps=2", "device=cpu", f"cache-dir={cache_dir}"]  # fmt: skip
    flags = [word for option in options for word in ("--set", option)]
    out = tmp_path / "samples"
    result = CliRunner().invoke(
        app, ["generator", "sample", "digits", "--out", str(out), "--per-class", "1", *flags]
    )
    assert result.exit_code == 0, result.output
    assert len(list(out.glob("*/0.png"))) == 10
    assert (out / "grid.png").is_file()
