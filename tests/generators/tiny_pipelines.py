"""Diffusers pipelines of a few thousand random weights, saved as real ones are."""

import json
from pathlib import Path

import torch

ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789"


def save_dit(root: Path, classes: int = 10, names: dict[int, str] | None = None) -> Path:
    """Save a class-conditional pipeline of 16x16 colour images."""
    from diffusers import DDIMScheduler, DiTPipeline, DiTTransformer2DModel

    torch.manual_seed(0)
    transformer = DiTTransformer2DModel(
        num_attention_heads=2, attention_head_dim=8, in_channels=4, out_channels=8, num_layers=2,
        sample_size=8, patch_size=2, num_embeds_ada_norm=classes, norm_type="ada_norm_zero",
    )  # fmt: skip
    for parameter in transformer.parameters():  # blocks that begin at 0 would not see the label
        torch.nn.init.normal_(parameter, std=0.2)
    scheduler = DDIMScheduler(clip_sample=False)
    DiTPipeline(transformer, tiny_vae(), scheduler).save_pretrained(root)
    if names:
        edit_index(root, id2label={str(number): name for number, name in names.items()})
    return root


def save_text(root: Path, scheduler: object = None, safety_checker: object = None) -> Path:
    """Save a Stable Diffusion of 16x16 colour images, its prompts spelled letter by letter."""
    import diffusers
    from transformers import CLIPImageProcessor, CLIPTextConfig, CLIPTextModel, CLIPTokenizer

    tokens = [*ALPHABET, *(letter + "</w>" for letter in ALPHABET), "<|startoftext|>", "<|endoftext|>"]  # fmt: skip  # noqa: E501  # one alphabet, one line
    root.mkdir(parents=True)
    (root / "vocab.json").write_text(json.dumps({token: i for i, token in enumerate(tokens)}))
    (root / "merges.txt").write_text("#version: 0.2\n")
    torch.manual_seed(0)
    config = CLIPTextConfig(
        vocab_size=len(tokens), hidden_size=8, intermediate_size=16, num_hidden_layers=1,
        num_attention_heads=2, max_position_embeddings=32, projection_dim=8,
        bos_token_id=len(tokens) - 2, eos_token_id=len(tokens) - 1, pad_token_id=len(tokens) - 1,
    )  # fmt: skip
    unet = diffusers.UNet2DConditionModel(
        sample_size=8, in_channels=4, out_channels=4, layers_per_block=1, block_out_channels=(8, 8),
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"), norm_num_groups=4,
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"), cross_attention_dim=8,
        attention_head_dim=2,
    )  # fmt: skip
    tokenizer = CLIPTokenizer(str(root / "vocab.json"), str(root / "merges.txt"))
    tokenizer.model_max_length = 32
    pipeline = diffusers.StableDiffusionPipeline(
        vae=tiny_vae(),
        text_encoder=CLIPTextModel(config),
        tokenizer=tokenizer,
        unet=unet,
        scheduler=scheduler or diffusers.PNDMScheduler(skip_prk_steps=True, steps_offset=1),
        safety_checker=safety_checker,
        feature_extractor=safety_checker and CLIPImageProcessor(size=8, crop_size=8),
        requires_safety_checker=safety_checker is not None,
    )
    pipeline.save_pretrained(root)
    return root


def tiny_vae() -> torch.nn.Module:
    """Return a decoder from 8x8 latents to 16x16 colour images."""
    from diffusers import AutoencoderKL

    return AutoencoderKL(
        block_out_channels=(8, 8), down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2, latent_channels=4, norm_num_groups=4,
        sample_size=16,
    )  # fmt: skip


def edit_index(root: Path, **keys: object) -> None:
    """Change keys of the index of a pipeline."""
    path = root / "model_index.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | keys))
