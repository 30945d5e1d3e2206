"""Where tokens are: the ways of telling attention about position.

Letters: B images · E heads · P = H·W tokens · C channels of a head.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class RelativeKeyEncoding(nn.Module):
    """Relative encoding on the key (paper Sec. 3.2.2, commented passage): k_j ← k_j + R^W[j_x − i_x] + R^H[j_y − i_y].

    Tables are shared by the heads and start at zero. The pair's vector r_ij is never formed (it would take P² vectors):
    every product with it splits into a part for columns and a part for rows.
    """

    _to_x: Tensor
    _to_y: Tensor

    def __init__(self, grid_hw: tuple[int, int], channels: int) -> None:
        super().__init__()
        self.grid_hw = grid_hw
        height, width = grid_hw
        self.across = nn.Parameter(torch.zeros(2 * width - 1, channels))
        self.down = nn.Parameter(torch.zeros(2 * height - 1, channels))
        x, y = torch.arange(width).repeat(height), torch.arange(height).repeat_interleave(width)  # (P,), (P,)
        self.register_buffer("_to_x", torch.arange(width) - x[:, None] + width - 1, persistent=False)  # (P, W)
        self.register_buffer("_to_y", torch.arange(height) - y[:, None] + height - 1, persistent=False)  # (P, H)

    def _parts(self, vectors: Tensor, *, is_key: bool) -> tuple[Tensor, Tensor]:
        """Products of each token's vector with the tables, by column and row of the other token: (…, P, W), (…, P, H).

        For a query i the other token is j and the offset j − i; for a key j the other is i and the offset still j − i.
        """
        to_x, to_y = self._to_x, self._to_y
        if is_key:  # the offset from the other token to this one mirrors the offset from this one to the other
            to_x, to_y = 2 * (self.grid_hw[1] - 1) - to_x, 2 * (self.grid_hw[0] - 1) - to_y
        by_x = (vectors @ self.across.T).gather(-1, to_x.expand(*vectors.shape[:-1], -1))
        by_y = (vectors @ self.down.T).gather(-1, to_y.expand(*vectors.shape[:-1], -1))
        return by_x, by_y

    def dot_query(self, query: Tensor) -> Tensor:
        """q_i · r_ij: (B, E, P, C) -> (B, E, P, P)."""
        by_x, by_y = self._parts(query, is_key=False)
        return (by_y[..., :, None] + by_x[..., None, :]).flatten(-2)

    def dot_key(self, key: Tensor) -> Tensor:
        """k_j · r_ij: (B, E, P, C) -> (B, E, P, P), indexed by i then j."""
        by_x, by_y = self._parts(key, is_key=True)
        return (by_y[..., :, None] + by_x[..., None, :]).flatten(-2).transpose(-1, -2)

    def squared_length(self) -> Tensor:
        """‖r_ij‖²: (P, P).

        It depends on the offset alone, so it is computed for each offset once; the windows of that table are its rows.
        """
        (height, width), down, across = self.grid_hw, self.down, self.across
        lengths = down.square().sum(-1)[:, None] + across.square().sum(-1) + 2 * down @ across.T  # (2H − 1, 2W − 1)
        windows = lengths.unfold(0, height, 1).unfold(1, width, 1)  # (H, W, H, W), by the first offset in it
        return windows.flip(0, 1).reshape(height * width, height * width)

    def pair_products(self, query: Tensor, key: Tensor | None, scale: float) -> Iterator[Tensor]:
        """q·r, or q·r − k·r where keys are given, times ``scale``, one image at a time: each (E, P, P).

        The numbers of one image stay in the processor's cache on their way; those of a whole batch would not.
        Shapes: query and key (B, E, P, C).
        """
        height, width = self.grid_hw
        query_x, query_y = (part * scale for part in self._parts(query, is_key=False))
        key_x = key_y = None
        if key is not None:
            key_x, key_y = ((part * -scale).transpose(-1, -2).contiguous() for part in self._parts(key, is_key=True))
        for image in range(len(query)):
            products = query_y[image, ..., :, None] + query_x[image, ..., None, :]  # (E, P, H, W), by the key's place
            if key_x is not None and key_y is not None:
                by_query = products.view(len(products), height, width, -1)  # (E, H, W, P), by the query's place
                by_query.add_(key_y[image, :, :, None]).add_(key_x[image, :, None])
            yield products.flatten(-2)

    def as_products(self, query: Tensor, key: Tensor | None) -> tuple[Tensor, Tensor]:
        """Vectors whose products are q·r, or q·r − k·r where keys are given: both (B, E, P, H + W) or twice as wide.

        q_i · r_ij is a number for each column and row that j can be in, times which of them j is in; k_j · r_ij too.
        So a single matrix product of [q, …] and [k, …] gives all of it.
        """
        height, width = self.grid_hw
        places = torch.arange(height * width, device=query.device)
        is_at = torch.cat([F.one_hot(places % width, width), F.one_hot(places // width, height)], dim=1)  # (P, W + H)
        is_at = is_at.to(query.dtype).expand(*query.shape[:-1], -1)  # (B, E, P, W + H)
        of_query = torch.cat(self._parts(query, is_key=False), dim=-1)
        if key is None:
            return of_query, is_at
        of_key = torch.cat(self._parts(key, is_key=True), dim=-1)
        return torch.cat([of_query, -is_at], dim=-1), torch.cat([is_at, of_key], dim=-1)


class RelativeBias(nn.Module):
    """A learnt number for each head and offset, added to the logits, as in Swin."""

    _offset: Tensor

    def __init__(self, grid_hw: tuple[int, int], heads: int) -> None:
        super().__init__()
        height, width = grid_hw
        self.table = nn.Parameter(torch.zeros(heads, (2 * height - 1) * (2 * width - 1)))
        x, y = torch.arange(width).repeat(height), torch.arange(height).repeat_interleave(width)
        offset_x, offset_y = x[None, :] - x[:, None] + width - 1, y[None, :] - y[:, None] + height - 1
        self.register_buffer("_offset", offset_y * (2 * width - 1) + offset_x, persistent=False)  # (P, P)

    def forward(self) -> Tensor:
        """The bias of every pair: (E, P, P)."""
        return self.table[:, self._offset]


class AbsolutePosition(nn.Module):
    """A learnt vector for each cell, added to the tokens."""

    def __init__(self, grid_hw: tuple[int, int], channels: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.zeros(1, grid_hw[0] * grid_hw[1], channels))
        nn.init.trunc_normal_(self.table, std=0.02)

    def forward(self, tokens: Tensor) -> Tensor:
        """(B, P, C) -> (B, P, C)."""
        return tokens + self.table
