"""RLinf extension (RLINF_EXT_MODULE) for the tiny test fixtures: a small vision tower for pi0.5.

openpi takes SigLIP So400m (27 layers, 412 M parameters) and a projection of 2048 whatever the Gemma variant, so even
its 'dummy' is large and does not fit together. With this extension pi0.5 has 34 M parameters. Only fixtures use it.
"""

from typing import Any

IMAGE_SIZE = 224
PATCH_SIZE = 56
_MARK = "_rlinf_npu_tiny_tower"


def shrink(config: Any) -> Any:
    """Set a PaliGemma config's vision tower to two layers of width 64 and its projection to the text model's width."""
    vision = config.vision_config
    vision.hidden_size, vision.intermediate_size = 64, 128
    vision.num_hidden_layers, vision.num_attention_heads = 2, 4
    vision.image_size, vision.patch_size = IMAGE_SIZE, PATCH_SIZE
    vision.projection_dim = config.projection_dim = config.text_config.hidden_size
    config.text_config.num_image_tokens = (IMAGE_SIZE // PATCH_SIZE) ** 2
    return config


def register() -> None:
    """Called by RLinf once in every worker process."""
    from openpi.models_pytorch import gemma_pytorch

    if hasattr(gemma_pytorch, _MARK):
        return
    full_size = gemma_pytorch.PaliGemmaForConditionalGeneration
    gemma_pytorch.PaliGemmaForConditionalGeneration = lambda config: full_size(config=shrink(config))
    setattr(gemma_pytorch, _MARK, True)
