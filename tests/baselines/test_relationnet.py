"""RelationNet's module."""

import torch

from salvit.baselines.relationnet import relate


def test_a_relation_is_one_layer_on_prototype_and_cell_side_by_side():
    torch.manual_seed(0)
    prototypes, features = torch.randn(3, 5), torch.randn(5, 4, 6)
    weight, bias = torch.randn(7, 10), torch.randn(7)
    hidden = relate(prototypes, features, weight, bias)
    pair = torch.cat([prototypes[2], features[:, 3, 4]])
    torch.testing.assert_close(hidden[2, 3 * 6 + 4], weight @ pair + bias)
