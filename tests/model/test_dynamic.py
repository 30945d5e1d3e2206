import torch

from salvit.model.dynamic import DynamicDescriptor, DynamicLocator
from salvit.model.locator import decode

GRID, SCALES = (10, 10), (4, 6)


def head(*, has_presence: bool = False):
    torch.manual_seed(0)
    return DynamicDescriptor(8, GRID, 6, SCALES, latent=3), DynamicLocator(SCALES, 3, has_presence=has_presence)


def test_every_scale_says_something_of_every_cell():
    descriptor, locator = head()
    outputs = locator(descriptor(torch.randn(2, 8, *GRID), torch.randn(3, 8)))
    assert [tuple(scale.logits.shape) for scale in outputs] == [(2, 3, 16), (2, 3, 36)]
    assert [tuple(scale.offsets.shape) for scale in outputs] == [(2, 3, 16, 2), (2, 3, 36, 2)]
    assert [tuple(scale.latents.shape) for scale in outputs] == [(2, 3, 16, 2, 3), (2, 3, 36, 2, 3)]
    assert all(scale.offsets.abs().max() <= 1 for scale in outputs)


def test_wanted_pairs_are_those_of_the_whole_one_by_one():
    descriptor, locator = head(has_presence=True)
    features, prototypes = torch.randn(3, 8, *GRID), torch.randn(4, 8)
    wanted = torch.rand(3, 4) > 0.5
    whole, some = descriptor(features, prototypes), descriptor(features, prototypes, wanted)
    assert torch.allclose(some[0], whole[wanted], atol=1e-6)
    assert torch.allclose(locator.presence(some)[0], locator.presence(whole)[wanted], atol=1e-6)


def test_a_prototype_reads_by_its_own_weights_alone():
    descriptor, _ = head()
    features, prototypes = torch.randn(2, 8, *GRID), torch.randn(3, 8)
    alone = descriptor(features, prototypes[1:2])
    assert torch.allclose(alone[:, 0], descriptor(features, prototypes)[:, 1], atol=1e-6)


def test_the_place_found_is_the_decoded_one():
    descriptor, locator = head()
    cells = descriptor(torch.randn(2, 8, *GRID), torch.randn(3, 8))
    assert torch.equal(locator.locate(cells, 140).points_input, decode(locator(cells), 140).points_input)
    assert locator.presence(cells) is None


def test_it_learns_where_the_prototype_was_taken_from():
    descriptor, locator = head()
    torch.manual_seed(1)
    features = torch.randn(4, 8, 4, 4).repeat_interleave(2, 2).repeat_interleave(2, 3)  # (4, 8, 8, 8)
    features = torch.nn.functional.pad(features, (1, 1, 1, 1))
    places = torch.tensor([[2, 3], [6, 5], [4, 7], [7, 2]])  # row, column
    prototypes = features[0, :, places[:, 0], places[:, 1]].T
    targets = (places[:, 0] * 6 // 10) * 6 + places[:, 1] * 6 // 10
    optimizer = torch.optim.Adam(descriptor.parameters(), lr=1e-2)
    for _ in range(120):
        logits = locator(descriptor(features[:1], prototypes))[1].logits[0]
        loss = torch.nn.functional.cross_entropy(logits, targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert torch.equal(logits.argmax(-1), targets)
