"""The paper's figures, typed from its LaTeX source: tables of the paper and its supplement, in their order.

Percent, unless a name says otherwise. Where the source holds a row that is commented out, its figures are kept here
under ``…, not printed``: they are the authors' own, but they did not stand behind them in print.
"""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal

ANIMALS = ("cat", "dog", "cow", "horse", "sheep")
"""Unseen species of Animal Pose, in the paper's order."""

SETS = ("cub", "nabirds", "awa_pose")
"""The other data sets of the main table, in its order."""

MAIN: dict[tuple[str, int], tuple[float, ...]] = {
    ("ProbIntr", 1): (35.21, 30.01, 25.79, 24.87, 23.33, 27.84, 70.66, 57.63, 40.65),
    ("ProtoNet", 1): (27.53, 23.01, 20.37, 18.03, 20.55, 21.90, 62.64, 48.84, 38.98),
    ("RelationNet", 1): (30.89, 25.01, 22.29, 20.52, 22.91, 24.32, 66.08, 47.53, 30.64),
    ("WG without attention", 1): (30.70, 24.87, 23.58, 23.23, 22.63, 25.00, 63.64, 47.18, 38.85),
    ("WG", 1): (31.02, 27.04, 24.25, 23.80, 23.40, 25.90, 65.65, 48.15, 39.45),
    ("FSKD-R", 1): (50.99, 45.29, 42.07, 43.13, 36.61, 43.62, 82.62, 66.89, 57.76),
    ("FSKD-D", 1): (54.30, 49.56, 46.06, 46.01, 39.94, 47.17, 82.51, 68.17, 65.56),
    ("SalViT (DINO)", 1): (55.75, 50.29, 46.90, 47.23, 41.66, 48.37, 84.50, 69.45, 69.75),
    ("SalViT (default)", 1): (57.00, 50.94, 48.13, 47.87, 42.36, 49.26, 84.62, 69.58, 68.18),
    ("SalViT (default)+T", 1): (59.94, 54.82, 52.06, 50.01, 45.61, 52.49, 88.36, 72.47, 70.79),
    ("ProbIntr", 5): (43.83, 40.06, 33.41, 36.24, 29.47, 36.60, 78.78, 68.76, 53.23),
    ("ProtoNet", 5): (35.23, 31.11, 30.25, 29.77, 28.42, 30.96, 71.81, 64.56, 46.43),
    ("RelationNet", 5): (33.24, 28.75, 29.69, 26.38, 29.06, 29.42, 70.43, 55.58, 40.06),
    ("WG without attention", 5): (30.41, 28.13, 29.64, 32.15, 27.64, 29.59, 72.52, 60.70, 45.90),
    ("WG", 5): (40.11, 36.14, 34.67, 35.61, 31.47, 35.60, 71.95, 60.98, 50.87),
    ("FSKD-R", 5): (59.43, 52.59, 53.13, 55.04, 46.43, 53.33, 86.99, 75.66, 71.59),
    ("FSKD-D", 5): (61.33, 55.62, 56.19, 55.11, 49.25, 55.50, 86.17, 75.50, 74.84),
    ("SalViT (DINO)", 5): (62.03, 58.65, 57.41, 56.69, 50.47, 57.05, 88.18, 76.65, 79.41),
    ("SalViT (default)", 5): (62.24, 57.33, 57.93, 57.33, 50.50, 57.07, 87.76, 77.08, 76.77),
    ("SalViT (default)+T", 5): (64.49, 59.29, 60.39, 59.91, 53.01, 59.42, 89.81, 78.85, 81.03),
}
"""Table 2: (model, shots) → harmonic mean of novel and base PCK@0.1 on :data:`ANIMALS`, their mean, :data:`SETS`."""

COST: dict[str, tuple[float, float, float]] = {
    "ProbIntr": (29.5, 3.8, 4.9),
    "ProtoNet": (19.0, 3.4, 4.6),
    "RelationNet": (21.1, 3.6, 4.6),
    "WG without attention": (19.0, 3.9, 5.0),
    "WG": (23.2, 4.1, 5.1),
    "FSKD-R": (65.2, 3.9, 4.9),
    "FSKD-D": (65.2, 3.9, 4.9),
    "SalViT (DINO)": (50.9, 4.9, 6.4),
    "SalViT (default)": (56.9, 4.5, 5.5),
    "SalViT (default)+T": (56.9, 6.6, 7.6),
}
"""Table 2: model → millions of parameters, milliseconds a query with 1 and with 5 shots on the authors' GPU."""

Spread = tuple[float, float]
"""A figure and its ± of 95 %."""

DEEPFASHION2: dict[tuple[str, int], tuple[Spread | None, Spread]] = {
    ("MAML", 1): (None, (0.215, 0.023)),
    ("ProtoNet", 1): (None, (0.179, 0.042)),
    ("WG", 1): (None, (0.185, 0.051)),
    ("FSKD", 1): ((33.04, 1.80), (0.149, 0.005)),
    ("MetaCloth", 1): (None, (0.145, 0.021)),
    ("SalViT (DINO)", 1): ((35.59, 1.38), (0.134, 0.004)),
    ("SalViT (default)", 1): ((36.15, 1.46), (0.130, 0.004)),
    ("SalViT (default), not printed", 1): ((35.01, 1.47), (0.130, 0.004)),
    ("MAML", 5): (None, (0.126, 0.017)),
    ("ProtoNet", 5): (None, (0.135, 0.039)),
    ("WG", 5): (None, (0.160, 0.047)),
    ("FSKD", 5): ((44.92, 1.72), (0.111, 0.004)),
    ("MetaCloth", 5): (None, (0.096, 0.015)),
    ("SalViT (DINO)", 5): ((48.00, 1.31), (0.089, 0.002)),
    ("SalViT (default)", 5): ((50.52, 1.32), (0.087, 0.003)),
    ("SalViT (default), not printed", 5): ((50.87, 1.18), (0.093, 0.002)),
}
"""Table 3: (method, shots) → PCK@0.1 (None: not reported) and normalised error of novel keypoints. MAML, ProtoNet, WG
and MetaCloth are quoted there from the MetaCloth paper."""

ABLATION: dict[str, tuple[float, float, float, float]] = {
    "DINO with ViT": (44.03, 76.96, 56.11, 66.25),
    "DINO with SalViT": (45.71, 80.08, 57.19, 68.71),
    "DINO with SalViT without ML, not printed": (43.72, 78.63, 56.27, 66.89),
    "CNN-only": (44.25, 76.54, 54.71, 61.75),
    "ViT-only": (43.19, 76.71, 54.44, 62.53),
    "CNN+ViT": (44.34, 76.62, 54.57, 63.22),
    "SalViT": (46.61, 79.52, 57.36, 67.74),
    "SalViT without ML": (44.79, 77.70, 56.66, 64.19),
    "SalViT without PE": (45.02, 77.03, 55.41, 65.23),
    "SalViT with absolute PE, not printed": (44.34, 76.82, 54.82, 62.73),
    "SalViT with Swin's relative PE, not printed": (45.81, 78.41, 55.97, 65.11),
}
"""Table 4: 1-shot novel PCK@0.1 on Animal Pose (mean of five), then :data:`SETS`."""

EXPONENTS: dict[str, tuple[float, float]] = {
    "0.2": (43.56, 61.53),
    "0.5": (44.14, 61.57),
    "0.7": (45.32, 63.58),
    "0.8": (44.63, 62.94),
    "1.0": (44.81, 62.23),
    "2.0": (44.16, 61.29),
    "learnt": (46.61, 67.74),
}
"""Table 5: exponent of saliency → 1-shot novel PCK@0.1 on Animal Pose (mean of five) and AwA."""

REFINEMENT: dict[str, tuple[float, float]] = {
    "inductive": (49.26, 68.18),
    "average": (50.27, 69.17),
    "soft": (52.49, 70.79),
    "oracle": (54.23, 73.09),
}
"""Table 6: how prototypes are refined → 1-shot harmonic mean on Animal Pose (mean of five) and AwA."""

PSEUDO_LABELS: dict[tuple[int, int], tuple[float, float]] = {
    (15, 6): (50.08, 68.89),
    (30, 10): (50.73, 69.13),
    (45, 15): (51.39, 69.84),
    (60, 20): (52.49, 70.79),
}
"""Table 10: (queries, η) → 1-shot harmonic mean on Animal Pose (mean of five) and AwA."""

HIDDEN_IN_MASKING = (0, 30, 50, 100)
HIDDEN_IN_ALIGNMENT = (0, 50, 100)
"""Percent of hidden query keypoints: columns of the next two."""

MASKING: dict[str, dict[str, tuple[float, float, float, float]]] = {
    "background": {
        "nothing": (45.60, 38.49, 34.05, 22.82),
        "picture": (45.60, 40.49, 37.94, 30.27),
        "picture, saliency": (46.28, 40.68, 37.70, 29.77),
        "picture, saliency, features": (46.04, 40.75, 37.42, 29.13),
        "saliency, not printed": (45.43, 38.48, 34.30, 22.63),
        "saliency, features": (46.18, 38.84, 34.63, 23.74),
    },
    "grey": {
        "nothing": (45.40, 37.33, 32.46, 20.08),
        "picture": (45.66, 42.08, 40.53, 36.42),
        "picture, saliency": (46.16, 42.64, 40.68, 35.94),
        "picture, saliency, features": (45.81, 42.06, 40.16, 34.53),
        "saliency, not printed": (45.73, 37.50, 32.22, 19.56),
        "saliency, features": (45.86, 37.69, 32.80, 20.14),
    },
    "average": {
        "nothing": (45.16, 38.34, 34.06, 22.60),
        "picture": (45.54, 42.21, 40.80, 36.40),
        "picture, saliency": (45.90, 42.58, 40.94, 36.33),
        "picture, saliency, features": (45.94, 42.40, 40.41, 35.35),
        "saliency, not printed": (45.55, 38.46, 34.14, 22.20),
        "saliency, features": (46.38, 38.71, 34.39, 22.81),
    },
}
"""Tables 7, 11 and 12: occluder → what training masks → 1-shot novel PCK@0.1, mean of five species of Animal Pose."""

ALIGNMENT: dict[str, dict[str, tuple[float, float, float]]] = {
    "background": {
        "no mask": (45.60, 34.05, 22.82),
        "mask": (46.28, 37.70, 29.77),
        "SimMIM": (46.10, 38.15, 30.61),
        "non-occluded loss": (45.65, 37.15, 28.22),
        "features, MMD": (45.44, 36.68, 28.52),
        "features, ℓ2": (46.29, 38.21, 29.68),
        "features, ℓ1": (46.80, 38.22, 30.13),
        "probability": (46.74, 38.40, 32.04),
        "features ℓ2 + probability, not printed": (45.71, 39.03, 31.72),
    },
    "grey": {
        "no mask": (45.40, 32.46, 20.08),
        "mask": (46.16, 40.68, 35.94),
        "SimMIM": (45.87, 40.59, 36.78),
        "non-occluded loss": (46.20, 40.16, 36.14),
        "features, MMD": (45.76, 40.05, 35.50),
        "features, ℓ2": (46.40, 41.25, 36.75),
        "features, ℓ1": (46.59, 40.31, 36.00),
        "probability": (46.44, 41.52, 38.40),
        "features ℓ2 + probability, not printed": (45.78, 40.51, 36.95),
    },
    "average": {
        "no mask": (45.16, 34.06, 22.60),
        "mask": (45.90, 40.94, 36.33),
        "SimMIM": (45.82, 41.21, 37.02),
        "non-occluded loss": (45.88, 40.84, 36.13),
        "features, MMD": (45.24, 40.16, 35.70),
        "features, ℓ2": (46.01, 40.77, 37.14),
        "features, ℓ1": (46.20, 40.93, 36.25),
        "probability": (46.29, 42.24, 38.54),
        "features ℓ2 + probability, not printed": (45.50, 41.23, 36.68),
    },
}
"""Tables 8, 13 and 14: occluder → alignment → 1-shot novel PCK@0.1, mean of five species of Animal Pose."""

PRIOR_IOU: dict[str, tuple[float, float]] = {
    "MNL": (69.8, 69.7),
    "DINO": (57.6, 57.5),
    "RBD": (34.3, 41.2),
    "WScribble": (75.7, 75.3),
}
"""Table 1: saliency → mean IoU with the maps of SCRN on Animal Pose and AwA (percent; the paper prints shares)."""

PRIOR_COST: dict[str, tuple[float, float]] = {
    "RBD": (0.0, 265.39),
    "WScribble": (15.5, 29.60),
    "DINO": (0.0, 0.03),
    "MNL": (16.3, 1.67),
    "SCRN": (25.2, 19.25),
}
"""Table 9: saliency → millions of further parameters, milliseconds a picture on the authors' GPU."""


def rounded(value: float, digits: int = 1) -> str:
    """A figure of a few decimals, rounded half up by them: 40.65 gives 40.7, though the number in memory is below it.

    Ours go by the same rule: result files keep two decimals, and means of them are exact to four.
    """
    return str(Decimal(repr(round(value, 4))).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP))
