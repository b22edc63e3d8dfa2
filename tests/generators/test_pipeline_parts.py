"""What is read from a pipeline's directory, and what is refused."""

import json
import shutil
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny_pipelines import edit_index, save_dit, save_text

from fedeas_app.errors import UserError
from fedeas_app.generators import pipeline_parts
from fedeas_app.generators.pipeline_parts import PipelineDirectory

WEIGHTS = "transformer/diffusion_pytorch_model.safetensors"


@pytest.fixture(scope="session")
def whole(tmp_path_factory):
    return save_dit(tmp_path_factory.mktemp("whole") / "dit", names={0: "tench, Tinca", 1: "ray"})


@pytest.fixture
def dit(whole, tmp_path):
    """A copy, to be damaged."""
    return shutil.copytree(whole, tmp_path / "dit")


def refusal(root):
    with pytest.raises(UserError) as caught:
        PipelineDirectory(root, "'x'").load(torch.float32)
    message = str(caught.value)
    assert message.startswith("The generator 'x'")
    assert "\n" not in message
    return message


def test_a_class_conditional_pipeline(dit):
    directory = PipelineDirectory(dit, "'x'")
    assert directory.condition == "class_labels"
    assert directory.num_classes == 10
    assert directory.id2label == {"0": "tench, Tinca", "1": "ray"}
    assert not directory.uses_transformers
    assert directory.load(torch.float32).labels == {"Tinca": 0, "ray": 1, "tench": 0}


def test_the_networks_have_the_precision_asked_for(dit):
    pipeline = PipelineDirectory(dit, "'x'").load(torch.bfloat16)
    assert pipeline.transformer.dtype == pipeline.vae.dtype == torch.bfloat16


def test_an_old_name_of_the_network_is_understood(dit):
    """As DiT was first published."""
    edit_index(dit, transformer=["diffusers", "Transformer2DModel"])
    config = dit / "transformer/config.json"
    config.write_text(config.read_text().replace("DiTTransformer2DModel", "Transformer2DModel"))
    loaded = PipelineDirectory(dit, "'x'").load(torch.float32).transformer
    assert type(loaded).__name__ == "DiTTransformer2DModel"


def test_every_file_that_matters_has_a_digest(dit):
    before = PipelineDirectory(dit, "'x'").digests()
    assert sorted(before) == [
        "model_index.json",
        "scheduler/scheduler_config.json",
        "transformer/config.json",
        WEIGHTS,
        "vae/config.json",
        "vae/diffusion_pytorch_model.safetensors",
    ]
    (dit / "README.md").write_text("about")
    (dit / "single_file.safetensors").write_text("what other programs load")
    assert PipelineDirectory(dit, "'x'").digests() == before
    config = dit / "vae/config.json"
    config.write_text(config.read_text() + " ")
    after = PipelineDirectory(dit, "'x'").digests()
    assert {name for name in after if after[name] != before[name]} == {"vae/config.json"}


@pytest.mark.parametrize("content", ["{", "[]", "\udcff"])
def test_an_index_that_cannot_be_read(dit, content):
    (dit / "model_index.json").write_bytes(content.encode(errors="surrogateescape"))
    assert "model_index.json" in refusal(dit)


@pytest.mark.parametrize(
    "kind", ["NoSuchPipeline", "UNet2DModel", ["my_pipeline", "Mine"], None, "__version__"]
)
def test_a_class_that_is_no_pipeline(dit, kind):
    edit_index(dit, _class_name=kind)
    assert f"is a {kind!r}, which is no pipeline of diffusers" in refusal(dit)


def test_a_pipeline_that_takes_neither_class_nor_prompt(dit):
    edit_index(dit, _class_name="DDPMPipeline")
    assert "DDPMPipeline, which makes no images from class labels or from a prompt" in refusal(dit)


def test_a_pipeline_that_makes_no_images(dit):
    edit_index(dit, _class_name="StableAudioPipeline")
    assert "StableAudioPipeline, which" in refusal(dit)


def test_a_pipeline_of_other_pipelines_is_refused(dit):
    edit_index(dit, _class_name="KandinskyV22CombinedPipeline")
    assert "cannot be told the noise" in refusal(dit)


@pytest.mark.parametrize(
    "value", [["os", "system"], ["subprocess", "Popen"], ["mine", "Network"],
              ["diffusers", "utils"], ["diffusers", "NoNetwork"]]
)  # fmt: skip
def test_a_part_of_other_origin_is_never_run(dit, value):
    (dit / "transformer/mine.py").write_text("raise SystemExit('ran')")
    (dit / "mine.py").write_text("raise SystemExit('ran')")
    (dit / "None.py").write_text("raise SystemExit('ran')")
    edit_index(dit, transformer=value)
    assert f"needs {value[0]}.{value[1]} as its transformer" in refusal(dit)


def test_a_name_with_a_line_break_breaks_no_sentence(dit):
    edit_index(dit, scheduler=["diffusers", "DDIM\nScheduler"])
    assert "needs 'diffusers.DDIM\\nScheduler' as its scheduler" in refusal(dit)


@pytest.mark.parametrize("value", [["diffusers"], [1, 2], ["a", "b", "c"], []])
def test_a_part_that_is_no_pair(dit, value):
    edit_index(dit, vae=value)
    assert f"cannot be loaded from {dit}" in refusal(dit)


def test_a_part_outside_of_the_directory(dit):
    edit_index(dit, **{"../vae": ["diffusers", "AutoencoderKL"]})
    assert "part of the name '../vae'" in refusal(dit)


def test_a_part_that_is_missing(dit):
    shutil.rmtree(dit / "vae")
    assert f"cannot be loaded from {dit / 'vae'}" in refusal(dit)


def test_a_part_that_the_index_leaves_out(dit):
    index = json.loads((dit / "model_index.json").read_text())
    del index["vae"]
    (dit / "model_index.json").write_text(json.dumps(index))
    assert f"cannot be loaded from {dit}" in refusal(dit)


def test_pickled_weights_alone_are_refused(dit):
    (dit / WEIGHTS).rename(dit / "transformer/diffusion_pytorch_model.bin")
    assert "weights of its transformer only as pickle" in refusal(dit)


def test_weights_cut_short(dit):
    path = dit / WEIGHTS
    path.write_bytes(path.read_bytes()[:-100])
    assert f"cannot be loaded from {dit / 'transformer'}" in refusal(dit)


def test_a_weight_that_is_missing(dit):
    """Diffusers would go on with a random one."""
    weights = load_file(dit / WEIGHTS)
    del weights["proj_out_2.bias"]
    save_file(weights, dit / WEIGHTS)
    assert "the weight proj_out_2.bias is not in its files" in refusal(dit)


def test_weights_of_another_network(dit):
    config = json.loads((dit / "transformer/config.json").read_text())
    (dit / "transformer/config.json").write_text(json.dumps(config | {"num_embeds_ada_norm": 7}))
    assert f"cannot be loaded from {dit / 'transformer'}" in refusal(dit)


@pytest.mark.parametrize("names", [["tench"], {"first": "tench"}])
def test_names_without_numbers(dit, names):
    edit_index(dit, id2label=names)
    with pytest.raises(UserError, match="id2label in model_index"):
        _ = PipelineDirectory(dit, "'x'").id2label


def test_a_text_pipeline(tmp_path):
    directory = PipelineDirectory(save_text(tmp_path / "text"), "'x'")
    assert directory.condition == "prompt"
    assert directory.uses_transformers
    assert "tokenizer/vocab.json" in directory.digests() or (
        "tokenizer/tokenizer.json" in directory.digests()
    )
    assert directory.load(torch.float32).safety_checker is None
    with pytest.raises(UserError, match="does not say how many classes"):
        _ = directory.num_classes


def test_text_without_transformers_is_a_sentence(tmp_path, monkeypatch):
    text = save_text(tmp_path / "text")
    monkeypatch.setattr(pipeline_parts, "find_spec", lambda name: None)
    assert "install the extra `text` (fedeas[text])" in refusal(text)


def test_classes_need_no_transformers(dit):
    """In a process that cannot find it, as where the extra was not installed."""
    program = f"""
import sys
from importlib.machinery import PathFinder

class Hidden(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.split(".")[0] == "transformers" else super().find_spec(name, path)

sys.meta_path[sys.meta_path.index(PathFinder)] = Hidden
from pathlib import Path
import torch
from fedeas_app.generators.pipeline_parts import PipelineDirectory
print(PipelineDirectory(Path({str(dit)!r}), "'x'").load(torch.float32).labels["ray"])
"""
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert result.stdout == "1\n", result.stderr
