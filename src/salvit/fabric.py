"""What training runs on: the extra ``train``, and Fabric on a device that is present."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lightning_fabric import Fabric

    from salvit.recipes import TrainSettings

_NEEDED = ("lightning_fabric", "tensorboard")


def need_training() -> None:
    """Refuse, before any work is done, where the extra ``train`` is not installed."""
    from importlib import import_module

    try:
        for name in _NEEDED:
            import_module(name)
    except ModuleNotFoundError as missing:
        raise ValueError(f"training needs {missing.name!r}; install it with `pip install 'salvit[train]'`") from None


def open_fabric(settings: TrainSettings, device: str, *, devices: int = 1, strategy: str = "auto") -> Fabric:
    """Fabric for a training; a device that is not present is an error that names those that are."""
    from salvit.predict import choose_device

    need_training()
    choose_device(device)
    from lightning_fabric import Fabric

    return Fabric(accelerator=device, devices=devices, strategy=strategy, precision=settings.precision)
