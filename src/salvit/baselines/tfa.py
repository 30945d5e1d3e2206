"""``tfa``: train on base keypoints, then fine-tune the localisation heads alone (Wang et al. 2020).

The second stage runs on the marked pictures of each pack; the paper's source names this method without figures.
"""

from __future__ import annotations

from salvit.baselines.adapting import Adapting


class TFA(Adapting):
    """Adapted in inference alone. Choice: steps and rate."""

    steps = 20
    rate = 0.01
    adapts_in_training = False
