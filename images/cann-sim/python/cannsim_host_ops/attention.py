"""scaled_dot_product_attention without a fused kernel."""

import torch


def scaled_dot_product_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    """Attention by torch's composite formula, which is differentiable; shapes as in torch's function of this name.

    torch_npu maps the operator straight to a fused kernel of the device, forward and backward.
    """
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        # The composite formula adds its mask.
        attn_mask = torch.zeros_like(attn_mask, dtype=query.dtype).masked_fill_(~attn_mask, float("-inf"))
    result, _ = torch.ops.aten._scaled_dot_product_attention_math(
        query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
    )
    return result  # type: ignore[no-any-return]
