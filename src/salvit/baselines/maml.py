"""``maml``: weights from which a few steps on the marked pictures go far (Finn et al. 2017), first order."""

from __future__ import annotations

from salvit.baselines.adapting import Adapting


class MAML(Adapting):
    """Adapted in training too: what is trained is the start of the adaptation. Choice: steps and rate."""

    steps = 3
    rate = 0.01
    adapts_in_training = True
