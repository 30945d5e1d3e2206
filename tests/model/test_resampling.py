import pytest
import torch

from salvit.model.resampling import at_cells, vectors_at_cells


@pytest.mark.parametrize("size", [3, 8, 12, 20, 25])
def test_resampling_by_matrices_is_that_of_torch(size):
    maps = torch.randn(2, 3, 20, 10, dtype=torch.float32)
    expected = torch.nn.functional.interpolate(maps, size=(size, size), mode="bilinear", antialias=True).flatten(2)
    torch.testing.assert_close(at_cells(maps, size), expected, atol=1e-5, rtol=1e-5)


def test_cells_side_by_side_are_the_same_numbers():
    maps = torch.randn(2, 5, 20, 10)
    torch.testing.assert_close(vectors_at_cells(maps, 12), at_cells(maps, 12).transpose(1, 2), atol=1e-5, rtol=1e-5)
