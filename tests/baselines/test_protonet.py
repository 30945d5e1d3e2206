"""ProtoNet's score, by hand."""

import torch

from salvit.baselines.protonet import negative_distances


def test_the_score_is_the_negative_squared_distance_over_the_root_of_the_channels():
    prototypes = torch.tensor([[1.0, 2.0, 0.0, 0.0]])
    features = torch.tensor([[1.0, 2.0, 0.0, 0.0], [4.0, 6.0, 0.0, 0.0]]).T.reshape(1, 4, 1, 2)
    torch.testing.assert_close(negative_distances(prototypes, features), torch.tensor([[[[0.0, -12.5]]]]))  # −25 / 2
