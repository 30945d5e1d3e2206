import torch

from salvit.model.locator import decode
from salvit.model.spatial import SpatialDescriptor, SpatialLocator


def head():
    torch.manual_seed(0)
    return SpatialDescriptor(8, (10, 10), 4).eval(), SpatialLocator(4, (4, 6), latent=3).eval()


def test_every_scale_says_something_of_every_cell():
    descriptor, locator = head()
    outputs = locator(descriptor(torch.randn(2, 8, 10, 10), torch.randn(3, 8)))
    assert [tuple(scale.logits.shape) for scale in outputs] == [(2, 3, 16), (2, 3, 36)]
    assert [tuple(scale.offsets.shape) for scale in outputs] == [(2, 3, 16, 2), (2, 3, 36, 2)]
    assert [tuple(scale.latents.shape) for scale in outputs] == [(2, 3, 16, 2, 3), (2, 3, 36, 2, 3)]
    assert all(scale.offsets.abs().max() <= 1 for scale in outputs)


def test_wanted_pairs_are_those_of_the_whole_one_by_one():
    descriptor, locator = head()
    features, prototypes = torch.randn(3, 8, 10, 10), torch.randn(4, 8)
    wanted = torch.rand(3, 4) > 0.5
    whole, some = locator(descriptor(features, prototypes)), locator(descriptor(features, prototypes, wanted))
    for one, two in zip(whole, some, strict=True):
        assert torch.allclose(two.logits[0], one.logits[wanted], atol=1e-5)


def test_the_place_found_is_the_decoded_one():
    descriptor, locator = head()
    maps = descriptor(torch.randn(2, 8, 10, 10), torch.randn(3, 8))
    found, decoded = locator.locate(maps, 140), decode(locator(maps), 140)
    assert torch.equal(found.points_input, decoded.points_input)
