"""Test-time fine-tuning: a few steps on the support of an episode; the weights are put back afterwards.

The supports act as supports and as queries. Nothing of the true queries is looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from salvit.model.detector import SalViT
from salvit.model.encoder import EncoderInput
from salvit.model.losses import multi_scale_loss

LEARNING_RATE = 1e-4
"""Of a fresh Adam for each episode, as in training."""


@contextmanager
def fine_tuned(
    model: SalViT, support: EncoderInput, points_input: Tensor, mask: Tensor, steps: int
) -> Iterator[SalViT]:
    """Inside the block the model has been trained for some steps on the support; afterwards it is as before.

    Args:
        model: Its trainable weights are changed in place and restored, whatever happens in the block.
        support: K supports, as :meth:`SalViT.prepare` gives them.
        points_input: (K, N, 2) in the input.
        mask: (K, N) which are marked.
        steps: How many; 0 changes nothing.
    """
    kept = {name: value.detach().clone() for name, value in model.state_dict().items() if value.is_floating_point()}
    weights = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.Adam(weights, lr=LEARNING_RATE)
    try:
        with torch.enable_grad():
            for _ in range(steps):
                output = model(support, points_input, mask, support)
                loss = multi_scale_loss(output.scales, points_input, mask, model.input_size)
                optimizer.zero_grad(set_to_none=True)
                loss.backward()
                optimizer.step()
        yield model
    finally:
        with torch.no_grad():
            state = model.state_dict()
            for name, value in kept.items():
                state[name].copy_(value)
        for parameter in weights:
            parameter.grad = None
