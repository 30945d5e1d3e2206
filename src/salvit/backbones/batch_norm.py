"""Which statistics batch norm uses: ``running``, ``episode`` or ``frozen``.

- ``running``: those gathered in training; the parts that are trained go on gathering. The default, and what we report.
- ``episode``: those of the batch at hand, in training and in inference, as the authors' evaluation does. Unlike theirs,
  inference leaves the running ones alone, so that a result does not depend on what was looked at before.
- ``frozen``: those of pretraining, for ever; scale and shift are not trained either.
"""

from __future__ import annotations

from torch import nn

from salvit.backbones.base import Backbone


def set_batch_norm(backbone: Backbone, mode: str, *, is_training: bool) -> None:
    """Put every batch norm of a backbone into the state that ``mode`` asks for in training or in inference."""
    if mode not in ("running", "episode", "frozen"):
        raise ValueError(f"unknown batch norm mode {mode!r}; known: running, episode, frozen")
    trained = {id(module) for part in backbone.trainable_parts() for module in part.modules()}
    for module in backbone.modules():
        if not isinstance(module, nn.BatchNorm2d):
            continue
        is_trained = is_training and id(module) in trained
        module.train(mode == "episode" or (mode == "running" and is_trained))
        module.track_running_stats = mode != "episode" or is_training
        if mode == "frozen":
            module.requires_grad_(False)
