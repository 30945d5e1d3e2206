"""Saliency Optimization from Robust Background Detection (Zhu, Liang, Wei, Sun; CVPR 2014).

The idea: a region that touches the border of the picture much, for its size, is background. That gives a probability of
background for each superpixel, then a contrast to the background, then one least-squares problem that joins both.

Letters: P superpixels · E edges. Colours are CIE Lab, so a distance of about 10 is seen as another colour.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array, diags_array
from scipy.sparse.csgraph import dijkstra
from scipy.sparse.linalg import spsolve
from scipy.spatial.distance import cdist
from skimage.color import rgb2lab
from skimage.segmentation import slic

from salvit.saliency.provider import Map, Picture, check_picture, resize_map, shrink_picture, stretch

Array = npt.NDArray[np.float64]
Edges = npt.NDArray[np.int64]

SIGMA_COLOUR = 10.0
SIGMA_SPACE = 0.25
SIGMA_CONNECTIVITY = 1.0
SMOOTHNESS_FLOOR = 0.1


@dataclass(frozen=True, slots=True)
class Superpixels:
    """Small regions of one colour that cover the picture."""

    labels: npt.NDArray[np.int64]
    """(H, W) the number of each pixel's region, 0 … P − 1."""
    colours: Array
    """(P, 3) mean Lab colour."""
    centres: Array
    """(P, 2) mean (x, y), as fractions of the longer side."""
    is_border: npt.NDArray[np.bool_]
    """(P,) touches the border of the picture."""


class RobustBackground:
    """The provider ``rbd``."""

    name = "rbd"

    def __init__(self, longest: int = 384, num_superpixels: int = 250) -> None:
        self.longest = longest
        self.num_superpixels = num_superpixels

    @property
    def settings(self) -> str:
        """Working size and number of superpixels."""
        return f"longest={self.longest} superpixels={self.num_superpixels}"

    def __call__(self, picture: Picture, source: Path | None = None) -> Map:
        """The map of one picture."""
        small = shrink_picture(check_picture(picture), self.longest)
        superpixels = cut_superpixels(small, self.num_superpixels)
        saliency = stretch(score_superpixels(superpixels))  # (P,)
        return resize_map(saliency[superpixels.labels], picture.shape[:2])


def score_superpixels(superpixels: Superpixels) -> Array:
    """All steps after the cut, in the order of the paper: superpixels to saliency (P,)."""
    edges = neighbour_edges(superpixels.labels)
    colour_distance = cdist(superpixels.colours, superpixels.colours)  # (P, P)
    linked = link_border(edges, superpixels.is_border)
    similarity = geodesic_similarity(geodesic_distance(linked, colour_distance))
    background = background_probability(boundary_connectivity(similarity, superpixels.is_border))
    space_distance = cdist(superpixels.centres, superpixels.centres)
    contrast = background_weighted_contrast(colour_distance, space_distance, background)
    return optimise_saliency(background, stretch(contrast).astype(np.float64), edges, colour_distance)


def cut_superpixels(picture: Picture, num_superpixels: int) -> Superpixels:
    """Cut a picture (H, W, 3) into about that many superpixels (SLIC) and measure each.

    Choice: 250 for a picture of 384 pixels, near the paper's 200 for its somewhat smaller pictures.
    """
    height, width = picture.shape[:2]
    lab = rgb2lab(picture)
    labels = np.asarray(
        slic(picture, min(num_superpixels, height * width), compactness=10, max_num_iter=5, start_label=0)
    ).astype(np.int64)
    count = int(labels.max()) + 1
    rows, columns = np.mgrid[:height, :width]
    centres = np.stack([columns, rows], -1) / max(height, width)
    border = np.concatenate([labels[0], labels[-1], labels[:, 0], labels[:, -1]])
    is_border = np.zeros(count, dtype=bool)
    is_border[border] = True
    return Superpixels(labels, _means(labels, lab, count), _means(labels, centres, count), is_border)


def _means(labels: npt.NDArray[np.int64], values: Array, count: int) -> Array:
    """Mean of the values (H, W, C) in each region: (P, C)."""
    flat = labels.ravel()
    sums = [np.bincount(flat, weights=channel.ravel(), minlength=count) for channel in np.moveaxis(values, -1, 0)]
    return np.stack(sums, -1) / np.maximum(np.bincount(flat, minlength=count), 1)[:, None]


def neighbour_edges(labels: npt.NDArray[np.int64]) -> Edges:
    """Pairs (E, 2) of regions that share a side of a pixel, each once, the smaller number first."""
    right = np.stack([labels[:, :-1].ravel(), labels[:, 1:].ravel()], -1)
    below = np.stack([labels[:-1].ravel(), labels[1:].ravel()], -1)
    return _unique_pairs(np.concatenate([right, below]))


def link_border(edges: Edges, is_border: npt.NDArray[np.bool_]) -> Edges:
    """Add an edge between any two regions on the border, so that a background cut in two is still one region."""
    border = np.flatnonzero(is_border)
    first, second = np.triu_indices(len(border), 1)
    return _unique_pairs(np.concatenate([edges, np.stack([border[first], border[second]], -1)]))


def _unique_pairs(pairs: Edges) -> Edges:
    ordered = np.sort(pairs[pairs[:, 0] != pairs[:, 1]], axis=1)
    if not len(ordered):
        return ordered
    span = int(ordered.max()) + 1
    codes = np.unique(ordered[:, 0] * span + ordered[:, 1])
    return np.stack([codes // span, codes % span], -1)


def geodesic_distance(edges: Edges, colour_distance: Array) -> Array:
    """Shortest path over neighbours, in colour steps (their Eq. (2)).

        d_geo(p, q) = min over paths p = p_1 … p_n = q of Σ d_app(p_i, p_{i+1})

    Shapes: edges (E, 2), colour_distance ``d_app`` (P, P) -> (P, P).
    """
    count = len(colour_distance)
    first, second = edges[:, 0], edges[:, 1]
    # A tiny length stands for 0, which a sparse graph would take for "no edge".
    lengths = np.maximum(colour_distance[first, second], 1e-9)
    graph = coo_array((lengths, (first, second)), shape=(count, count)).tocsr()
    return cast(Array, dijkstra(graph, directed=False))


def geodesic_similarity(distance: Array, sigma: float = SIGMA_COLOUR) -> Array:
    """How far q belongs to the region of p (their Eq. (3)).

        S(p, q) = exp(−d_geo²(p, q) / (2 σ_clr²))

    Shapes: (P, P) -> (P, P). The sum of a row is the spanning area of p.
    """
    return np.exp(-np.square(distance) / (2 * sigma**2))


def boundary_connectivity(similarity: Array, is_border: npt.NDArray[np.bool_]) -> Array:
    """How much a region touches the border, for its size (their Eq. (1), (4), (5)).

        BndCon(p) = Σ_{q on the border} S(p, q) / √(Σ_q S(p, q))

    Shapes: similarity ``S`` (P, P), is_border (P,) -> (P,).
    """
    length = similarity[:, is_border].sum(1)
    return cast(Array, length / np.sqrt(similarity.sum(1)))


def background_probability(connectivity: Array, sigma: float = SIGMA_CONNECTIVITY) -> Array:
    """Probability that a region is background (their Eq. (7)).

        w_bg(p) = 1 − exp(−BndCon²(p) / (2 σ_bndCon²))

    Shapes: (P,) -> (P,).
    """
    return 1 - np.exp(-np.square(connectivity) / (2 * sigma**2))


def background_weighted_contrast(
    colour_distance: Array, space_distance: Array, background: Array, sigma: float = SIGMA_SPACE
) -> Array:
    """Contrast of each region to what is likely background near it (their Eq. (6)).

        wCtr(p) = Σ_q d_app(p, q) · exp(−d_spa²(p, q) / (2 σ_spa²)) · w_bg(q)

    Shapes: both distances (P, P), background ``w_bg`` (P,) -> (P,).
    """
    nearness = np.exp(-np.square(space_distance) / (2 * sigma**2))
    return (colour_distance * nearness) @ background


def optimise_saliency(background: Array, foreground: Array, edges: Edges, colour_distance: Array) -> Array:
    """The saliency that agrees best with background, foreground and smoothness (their Eq. (8), (9)).

        minimise  Σ_p w_bg s_p² + Σ_p w_fg (s_p − 1)² + Σ_{p,q neighbours} w_pq (s_p − s_q)²,
        w_pq = exp(−d_app²(p, q) / (2 σ_clr²)) + µ,   µ = 0.1

    Setting the gradient to 0: (diag(w_bg) + diag(w_fg) + L) s = w_fg, with L the Laplacian of w_pq.
    Shapes: background and foreground (P,), edges (E, 2), colour_distance (P, P) -> (P,).
    Not in the paper: 1e-6 on the diagonal, so that a picture without any evidence has the answer 0.
    """
    count = len(background)
    first, second = edges[:, 0], edges[:, 1]
    weights = np.exp(-np.square(colour_distance[first, second]) / (2 * SIGMA_COLOUR**2)) + SMOOTHNESS_FLOOR
    both = np.concatenate([first, second]), np.concatenate([second, first])
    affinity = coo_array((np.tile(weights, 2), both), shape=(count, count)).tocsr()
    degree = np.asarray(affinity.sum(axis=1)).ravel()
    system = diags_array(background + foreground + degree + 1e-6) - affinity
    return np.atleast_1d(spsolve(system.tocsc(), foreground))
