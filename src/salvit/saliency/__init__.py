"""Saliency: where the object is, from seven sources behind one interface."""

from __future__ import annotations

from salvit.saliency.build import NAMES, ProviderName, build_provider
from salvit.saliency.provider import Map, Picture, Provider

__all__ = ["NAMES", "Map", "Picture", "Provider", "ProviderName", "build_provider"]
