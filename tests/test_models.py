"""The classifiers against their published shape and torchvision's own forward pass."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812  # as PyTorch users write it

from fedeas_app.errors import UserError
from fedeas_app.models import chosen_layers, make_model

SMALL = (16, 16, 3)


def images(count, shape, seed=0):
    height, width, channels = shape
    rng = torch.Generator().manual_seed(seed)
    return torch.rand((count, channels, height, width), generator=rng) * 2 - 1


def test_cnn_has_the_published_layers(configure):
    model = make_model(configure(model="cnn"), (32, 32, 3), 10)
    assert (model.hidden.in_features, model.hidden.out_features) == (4096, 128)
    # Weights and biases: 3x3 convolutions 3→32 and 32→64, 4096→128, 128→10.
    convolutions = (3 * 9 * 32 + 32) + (32 * 9 * 64 + 64)
    linear = (4096 * 128 + 128) + (128 * 10 + 10)
    assert sum(p.numel() for p in model.parameters()) == convolutions + linear
    assert not list(model.buffers())


@pytest.mark.parametrize("shape", [(32, 32, 3), (8, 8, 1), (13, 6, 1), (4, 4, 3)])
def test_cnn_computes_what_it_says(configure, shape):
    model = make_model(configure(model="cnn"), shape, 7)
    x = images(5, shape)
    weights = [p.detach() for p in model.parameters()]
    hidden = F.max_pool2d(F.relu(F.conv2d(x, *weights[:2], padding=1)), 2)
    hidden = F.max_pool2d(F.relu(F.conv2d(hidden, *weights[2:4], padding=1)), 2)
    z = hidden.flatten(1) @ weights[4].T + weights[5]
    logits = F.relu(z) @ weights[6].T + weights[7]
    assert z.shape == (5, 128)
    torch.testing.assert_close(model.preactivations(x), z)
    torch.testing.assert_close(model(x), logits)


@pytest.mark.parametrize("keys", [{"model": "cnn"}, {"model": "resnet18"}])
def test_logits_are_the_head_of_the_activated_layer(configure, keys):
    model = make_model(configure(**keys), SMALL, 10).eval()
    x = images(2, SMALL)
    z = model.preactivations(x)
    assert (z < 0).any()
    assert (z > 0).any()
    assert torch.equal(model(x), model.head(torch.relu(z)))
    assert model(x).shape == (2, 10)


@pytest.mark.parametrize("norm", ["group", "batch"])
def test_resnet_layer_is_the_sum_that_torchvision_forms(configure, norm):
    model = make_model(configure(model="resnet18", norm=norm), SMALL, 10)
    x = images(2, SMALL)
    model.train()
    model(x)  # moves the running statistics away from 0 and 1
    model.eval()
    seen = {}
    block = model.net.layer4[1]
    hooks = [  # clones: torchvision adds and activates in place
        block.register_forward_pre_hook(lambda m, args: seen.update(skip=args[0].clone())),
        block.bn2.register_forward_hook(lambda m, args, out: seen.update(sum=out.clone())),
    ]
    logits = model.net(x)
    for hook in hooks:
        hook.remove()
    z = model.preactivations(x)
    assert z.shape == (2, 512, 2, 2)
    torch.testing.assert_close(z, seen["skip"] + seen["sum"], rtol=0, atol=0)
    torch.testing.assert_close(model(x), logits, rtol=0, atol=0)


@pytest.mark.parametrize("channels", [1, 3])
def test_resnet_keeps_the_resolution_of_small_images(configure, channels):
    model = make_model(configure(model="resnet18"), (8, 8, channels), 10)
    stem = model.net.conv1
    assert (stem.in_channels, stem.kernel_size, stem.stride) == (channels, (3, 3), (1, 1))
    assert isinstance(model.net.maxpool, nn.Identity)
    assert model.preactivations(images(1, (8, 8, channels))).shape == (1, 512, 1, 1)


def test_group_normalisation_is_the_default_and_keeps_no_statistics(configure):
    model = make_model(configure(model="resnet18"), SMALL, 10)
    assert not list(model.buffers())
    assert any(isinstance(m, nn.GroupNorm) and m.num_groups == 32 for m in model.modules())
    batch = make_model(configure(model="resnet18", norm="batch"), SMALL, 10)
    assert {str(b.dtype) for b in batch.buffers()} == {"torch.float32", "torch.int64"}


@pytest.mark.parametrize("name", ["cnn", "resnet18"])
def test_weights_depend_on_the_seed_alone(configure, name):
    def weights(seed, state):
        torch.manual_seed(state)
        model = make_model(configure(model=name, seed=seed), SMALL, 10)
        return torch.cat([p.detach().flatten() for p in model.parameters()])

    assert torch.equal(weights(1, 5), weights(1, 6))
    assert not torch.equal(weights(1, 5), weights(2, 5))


def test_the_global_random_state_is_left_alone(configure):
    torch.manual_seed(99)
    before = torch.get_rng_state()
    make_model(configure(), SMALL, 10)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(
    ("keys", "least"),
    [
        ({"model": "cnn"}, 4),
        ({"model": "resnet18"}, 8),
        ({"model": "resnet18", "norm": "batch"}, 16),
    ],
)
def test_too_small_images_are_refused_and_the_smallest_work(configure, keys, least):
    for shape in ((least - 1, 40, 1), (40, least - 1, 1)):
        with pytest.raises(UserError, match=f"at least {least}x{least} pixels.*image-size"):
            make_model(configure(**keys), shape, 10)
    model = make_model(configure(**keys), (least, least, 1), 10)
    # A client's last batch may hold one image.
    assert model.train()(images(1, (least, least, 1))).shape == (1, 10)


@pytest.mark.parametrize(("model", "layers"), [("cnn", 3), ("resnet18", 9)])
def test_chosen_layers_are_the_last_ones(configure, model, layers):
    network = make_model(configure(model=model), (16, 16, 1), 10).eval()
    images = torch.rand(2, 1, 16, 16)
    with torch.no_grad():
        every = chosen_layers(network, images, "all")
        assert len(every) == layers
        assert all(map(torch.equal, chosen_layers(network, images, 2), every[-2:]))
        assert all(map(torch.equal, chosen_layers(network, images, layers), every))
        (last,) = chosen_layers(network, images, "penultimate")
        torch.testing.assert_close(last, every[-1])


@pytest.mark.parametrize("shape", [(8, 8, 1), (13, 6, 3)])
def test_hidden_layers_of_the_cnn_are_the_inputs_of_its_relus(configure, shape):
    model, x = make_model(configure(model="cnn"), shape, 7), images(3, shape)
    w = [p.detach() for p in model.parameters()]
    first = F.conv2d(x, *w[:2], padding=1)
    second = F.conv2d(F.max_pool2d(F.relu(first), 2), *w[2:4], padding=1)
    third = F.max_pool2d(F.relu(second), 2).flatten(1) @ w[4].T + w[5]
    layers = list(model.hidden_layers(x))
    assert len(layers) == 3
    for found, expected in zip(layers, (first, second, third), strict=True):
        torch.testing.assert_close(found, expected)
    assert torch.equal(layers[-1], model.preactivations(x))


@pytest.mark.parametrize("norm", ["group", "batch"])
def test_hidden_layers_of_the_resnet_are_the_stem_and_every_blocks_sum(configure, norm):
    model = make_model(configure(model="resnet18", norm=norm), SMALL, 10).eval()
    x, activated = images(2, SMALL), []
    blocks = [
        b for name in ("layer1", "layer2", "layer3", "layer4") for b in getattr(model.net, name)
    ]
    hooks = [
        module.register_forward_hook(lambda m, args, out: activated.append(out.clone()))
        for module in blocks
    ]
    model.net(x)
    for hook in hooks:
        hook.remove()
    stem, *sums = model.hidden_layers(x)
    torch.testing.assert_close(stem, model.net.bn1(model.net.conv1(x)))
    assert len(sums) == len(activated) == 8
    for found, out in zip(sums, activated, strict=True):
        torch.testing.assert_close(torch.relu(found), out)
    torch.testing.assert_close(sums[-1], model.preactivations(x))


@pytest.mark.parametrize(("name", "width"), [("cnn", 128), ("resnet18", 512)])
def test_the_representation_is_what_the_output_layer_sees(configure, name, width):
    model = make_model(configure(model=name), SMALL, 10).eval()
    hidden = torch.relu(model.preactivations(images(2, SMALL)))
    output = model.output if name == "cnn" else model.net.fc
    seen = model.representation(hidden)
    assert seen.shape == (2, width)
    assert torch.equal(output(seen), model.head(hidden))
