"""Position encodings, against the pair vectors written out."""

import torch

from salvit.model.position import AbsolutePosition, RelativeBias, RelativeKeyEncoding

GRID = (2, 3)


def pair_vectors(encoding):
    """r_ij for every pair of cells, straight from the definition: (P, P, C)."""
    height, width = encoding.grid_hw
    cells = [(y, x) for y in range(height) for x in range(width)]
    rows = [
        [encoding.across[jx - ix + width - 1] + encoding.down[jy - iy + height - 1] for jy, jx in cells]
        for iy, ix in cells
    ]
    return torch.stack([torch.stack(row) for row in rows])


def relative(seed=0):
    torch.manual_seed(seed)
    encoding = RelativeKeyEncoding(GRID, 4)
    torch.nn.init.normal_(encoding.across)
    torch.nn.init.normal_(encoding.down)
    return encoding


def test_products_with_queries_and_keys_equal_the_definition():
    encoding = relative()
    pairs, query, key = pair_vectors(encoding), torch.randn(2, 3, 6, 4), torch.randn(2, 3, 6, 4)
    torch.testing.assert_close(encoding.dot_query(query), torch.einsum("beic,ijc->beij", query, pairs))
    torch.testing.assert_close(encoding.dot_key(key), torch.einsum("bejc,ijc->beij", key, pairs))
    torch.testing.assert_close(encoding.squared_length(), pairs.square().sum(-1))


def test_products_one_image_at_a_time_are_those_of_the_batch():
    encoding = relative()
    query, key = torch.randn(2, 3, 6, 4), torch.randn(2, 3, 6, 4)
    both = encoding.dot_query(query) - encoding.dot_key(key)
    for keys, expected in ((None, encoding.dot_query(query)), (key, both)):
        found = torch.stack(list(encoding.pair_products(query, keys, 0.5)))
        torch.testing.assert_close(found, 0.5 * expected)


def test_encoding_starts_at_zero_and_knows_only_differences():
    assert not RelativeKeyEncoding(GRID, 4).squared_length().any()
    lengths = relative().squared_length().view(2, 3, 2, 3)
    torch.testing.assert_close(lengths[0, 0, 1, 1], lengths[0, 1, 1, 2])  # both one down and one to the right
    assert not torch.isclose(lengths[0, 0, 1, 1], lengths[1, 1, 0, 0])


def test_relative_bias_by_hand():
    bias = RelativeBias((1, 2), heads=1)
    with torch.no_grad():
        bias.table.copy_(torch.tensor([[10.0, 20.0, 30.0]]))  # one to the left, the same, one to the right
    assert bias().tolist() == [[[20.0, 30.0], [10.0, 20.0]]]


def test_absolute_position_is_added_to_each_token():
    position = AbsolutePosition(GRID, 4)
    torch.testing.assert_close(position(torch.zeros(2, 6, 4)), position.table.expand(2, -1, -1))
