"""Presets, and pixels folded into channels."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedeas_app.errors import UserError
from fedeas_app.generators.network import PRESETS, fold, make_unet, preset_of, unfold


def test_the_presets_for_users_are_documented_sizes():
    assert set(PRESETS) == {"tiny", "small", "cifar", "micro"}  # micro: these tests' own


def test_an_unknown_preset():
    with pytest.raises(UserError, match="preset is 'huge'; tiny, small, cifar"):
        preset_of("huge")
    with pytest.raises(UserError, match="preset is 'huge'"):
        make_unet((8, 8, 1), 3, "huge")


@pytest.mark.parametrize(
    ("preset", "shape", "multiple"),
    [("tiny", (9, 8, 1), 2), ("small", (30, 28, 1), 4), ("cifar", (28, 28, 3), 8)],
)
def test_a_size_that_cannot_be_halved(preset, shape, multiple):
    with pytest.raises(UserError) as caught:
        make_unet(shape, 3, preset)
    assert repr(preset) in str(caught.value)
    assert f"{shape[1]}x{shape[0]} pixels" in str(caught.value)
    assert f"multiple of {multiple}" in str(caught.value)
    assert "folding" not in str(caught.value)


@pytest.mark.parametrize(
    ("preset", "unshuffle", "shape", "multiple"),
    [("tiny", 2, (8, 10, 1), 4), ("small", 4, (28, 28, 1), 16), ("tiny", 3, (8, 8, 1), 6)],
)
def test_a_size_that_cannot_be_folded_and_halved(preset, unshuffle, shape, multiple):
    with pytest.raises(UserError) as caught:
        make_unet(shape, 3, preset, unshuffle)
    assert f"folding blocks of {unshuffle}x{unshuffle} pixels" in str(caught.value)
    assert f"multiple of {multiple}" in str(caught.value)
    assert "\n" not in str(caught.value)
    bigger = (multiple, 2 * multiple, shape[2])
    assert make_unet(bigger, 3, preset, unshuffle).config.in_channels == shape[2] * unshuffle**2


@pytest.mark.parametrize(
    ("preset", "shape", "unshuffle"),
    [("tiny", (8, 8, 1), 1), ("small", (28, 28, 1), 1), ("micro", (8, 6, 3), 1),
     ("micro", (8, 12, 3), 2)],
)  # fmt: skip
def test_a_network_takes_the_images_it_is_for(preset, shape, unshuffle):
    unet = make_unet(shape, 3, preset, unshuffle).eval()
    height, width, channels = shape
    images = fold(torch.zeros(2, channels, height, width), unshuffle)
    with torch.inference_mode():
        out = unet(images, 5, class_labels=torch.tensor([0, 2])).sample
    assert out.shape == images.shape
    assert tuple(unet.config.sample_size) == (height // unshuffle, width // unshuffle)
    assert unet.config.num_class_embeds == 3


def attentions(unet):
    return [part for part in unet.modules() if type(part).__name__ == "Attention"]


def test_cifar_is_of_the_size_of_the_papers_network():
    """Ho et al., appendix B: 35.7 M parameters, attention at 16x16 and in the middle, one head."""
    with torch.device("meta"):
        unet = make_unet((32, 32, 3), 10, "cifar")
    labels = 10 * 512  # the embeddings of the classes, which the paper's network has not
    size = sum(part.numel() for part in unet.parameters())
    assert (size - labels) / 1e6 == pytest.approx(35.7, abs=0.1)
    assert [part.heads for part in attentions(unet)] == [1] * (2 + 3 + 1)
    assert [block.startswith("Attn") for block in unet.config.down_block_types] == [
        False, True, False, False
    ]  # fmt: skip


@pytest.mark.parametrize(("preset", "width"), [("tiny", 64), ("small", 128)])
def test_the_small_presets_have_heads_of_32_channels(preset, width):
    """Generators that were trained with them are continued and loaded."""
    unet = make_unet((8, 8, 1), 3, preset)
    assert {part.heads for part in attentions(unet)} == {width // 32}


sizes = st.integers(1, 3)


@given(sizes, sizes, sizes, sizes, st.integers(1, 4), st.integers(0, 2**32))
def test_folding_is_an_order_of_pixels_and_unfolding_its_inverse(n, c, rows, columns, u, seed):
    images = np.random.default_rng(seed).random((n, c, rows * u, columns * u))
    folded = fold(torch.from_numpy(images), u)
    # Channel (c, i, j) holds the pixel in row i and column j of every block.
    blocks = images.reshape(n, c, rows, u, columns, u).transpose(0, 1, 3, 5, 2, 4)
    assert np.array_equal(folded.numpy(), blocks.reshape(n, c * u * u, rows, columns))
    assert np.array_equal(unfold(folded, u).numpy(), images)


def test_folding_by_hand():
    image = torch.tensor([[[[1, 2, 3, 4], [5, 6, 7, 8]]]])
    assert fold(image, 2).tolist() == [[[[1, 3]], [[2, 4]], [[5, 7]], [[6, 8]]]]
