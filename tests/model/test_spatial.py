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


def test_presence_is_a_logit_for_each_pair_and_learns_what_is_not_there():
    torch.manual_seed(0)
    descriptor, locator = SpatialDescriptor(8, (10, 10), 4), SpatialLocator(4, (4, 6), latent=3, has_presence=True)
    features, prototypes = torch.randn(6, 8, 10, 10), torch.randn(2, 8)
    features[:3] *= 3  # three pictures are plainly different
    target = torch.tensor([1.0, 1.0, 1.0, 0.0, 0.0, 0.0])[:, None].expand(6, 2)
    optimizer = torch.optim.Adam([*descriptor.parameters(), *locator.parameters()], lr=1e-2)
    for _ in range(60):
        logits = locator.presence(descriptor(features, prototypes))
        loss = torch.nn.functional.binary_cross_entropy_with_logits(logits, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert logits.shape == (6, 2) and torch.equal(logits > 0, target > 0.5)


def test_a_head_without_presence_has_none():
    descriptor, locator = head()
    assert locator.presence(descriptor(torch.randn(1, 8, 10, 10), torch.randn(1, 8))) is None
