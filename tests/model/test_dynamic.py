from dataclasses import replace

import pytest
import torch

from salvit.model.build import build_model
from salvit.model.certainty import Calibration
from salvit.model.dynamic import DynamicDescriptor, DynamicLocator
from salvit.model.filters import with_filters
from salvit.model.locator import decode, decode_agreed, read_at
from salvit.model.losses import multi_scale_loss
from salvit.model.prototypes import example_shares
from salvit.model.settings import preset

GRID, SCALES = (10, 10), (4, 6)


def head(*, has_presence: bool = False):
    torch.manual_seed(0)
    return DynamicDescriptor(8, GRID, 6, SCALES, latent=3), DynamicLocator(SCALES, 3, has_presence=has_presence)


def describe(descriptor, features, prototypes, wanted=None):
    """What a picture says of one example of each keypoint."""
    return descriptor.read(descriptor.look(features), descriptor.weights(prototypes[None]), wanted)


def test_every_scale_says_something_of_every_cell():
    descriptor, locator = head()
    outputs = locator(describe(descriptor, torch.randn(2, 8, *GRID), torch.randn(3, 8)))
    assert [tuple(scale.logits.shape) for scale in outputs] == [(2, 3, 16), (2, 3, 36)]
    assert [tuple(scale.offsets.shape) for scale in outputs] == [(2, 3, 16, 2), (2, 3, 36, 2)]
    assert [tuple(scale.latents.shape) for scale in outputs] == [(2, 3, 16, 2, 3), (2, 3, 36, 2, 3)]
    assert all(scale.offsets.abs().max() <= 1 for scale in outputs)


def test_wanted_pairs_are_those_of_the_whole_one_by_one():
    descriptor, locator = head(has_presence=True)
    features, prototypes = torch.randn(3, 8, *GRID), torch.randn(4, 8)
    wanted = torch.rand(3, 4) > 0.5
    whole, some = describe(descriptor, features, prototypes), describe(descriptor, features, prototypes, wanted)
    assert torch.allclose(some[0], whole[wanted], atol=1e-6)
    assert torch.allclose(locator.presence(some)[0], locator.presence(whole)[wanted], atol=1e-6)


def test_a_prototype_reads_by_its_own_weights_alone():
    descriptor, _ = head()
    features, prototypes = torch.randn(2, 8, *GRID), torch.randn(3, 8)
    alone = describe(descriptor, features, prototypes[1:2])
    assert torch.allclose(alone[:, 0], describe(descriptor, features, prototypes)[:, 1], atol=1e-6)


def test_the_place_found_is_the_decoded_one():
    descriptor, locator = head()
    cells = describe(descriptor, torch.randn(2, 8, *GRID), torch.randn(3, 8))
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
        logits = locator(describe(descriptor, features[:1], prototypes))[1].logits[0]
        loss = torch.nn.functional.cross_entropy(logits, targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert torch.equal(logits.argmax(-1), targets)


def comparing_head():
    torch.manual_seed(0)
    return DynamicDescriptor(8 + 5, GRID, 6, SCALES, latent=3, compared=5, raw_gain=10.0), DynamicLocator(SCALES, 3)


@pytest.mark.parametrize("make", [head, comparing_head])
def test_reading_at_true_places_gives_the_same_losses_and_gradients(make):
    descriptor, locator = make()
    channels = 8 + descriptor.compared
    features, sets = torch.randn(3, channels, *GRID), torch.randn(5, 4, channels)
    picks = torch.tensor([[0, 3], [1, 2], [4, 0]])
    wanted = torch.rand(3, 2, 4) > 0.4
    points = torch.rand(int(wanted.sum()), 2) * 140
    valid = torch.ones(1, len(points), dtype=torch.bool)
    one_by_one = [
        describe(descriptor, features[[q]], sets[picks[q, s]], wanted[q, [s]]) for q in range(3) for s in range(2)
    ]
    whole = torch.cat(one_by_one, dim=1)
    some, presence = descriptor.at_places(features, sets, picks, wanted, points, 140)
    assert torch.allclose(presence, whole[..., -1, 0], atol=1e-5)
    found = []
    for scales in (locator(whole), some):
        descriptor.zero_grad()
        loss = multi_scale_loss(scales, points[None], valid, 140)
        loss.backward()
        found.append((loss.detach(), descriptor.generate[2].weight.grad.clone(), descriptor.mix.weight.grad.clone()))
    assert all(torch.allclose(first, second, atol=1e-4) for first, second in zip(*found, strict=True))


@pytest.mark.parametrize("make", [head, comparing_head])
def test_several_examples_give_the_mean_of_the_logarithms_of_their_own_maps(make):
    descriptor, locator = make()
    features, vectors = torch.randn(2, 8 + descriptor.compared, *GRID), torch.randn(3, 4, 8 + descriptor.compared)
    mask = torch.tensor([[True, True, False, True], [True, False, False, True], [True, False, True, False]])
    together = locator(descriptor.read(descriptor.look(features), descriptor.weights(vectors, example_shares(mask))))
    alone = [locator(describe(descriptor, features, vectors[k])) for k in range(3)]
    for number, scale in enumerate(together):
        for keypoint in range(4):
            maps = [alone[k][number].logits[:, keypoint].log_softmax(-1) for k in range(3) if mask[k, keypoint]]
            expected = torch.stack(maps).mean(0).softmax(-1)
            torch.testing.assert_close(scale.probabilities[:, keypoint], expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("make", [head, comparing_head])
def test_what_was_looked_at_once_is_read_again_and_again(make):
    descriptor, _ = make()
    features = torch.randn(2, 8 + descriptor.compared, *GRID)
    looked = descriptor.look(features)
    assert looked.shape == (2, 16 + 36 + 2, 6 + descriptor.compared)
    for keypoints in (1, 3):
        asked = torch.randn(keypoints, 8 + descriptor.compared)
        assert torch.equal(
            descriptor.read(looked, descriptor.weights(asked[None])), describe(descriptor, features, asked)
        )


def test_a_similar_place_is_found_before_anything_is_learnt():
    descriptor, locator = comparing_head()
    for parameter in (*descriptor.generate[2].parameters(), descriptor.bias):
        torch.nn.init.zeros_(parameter)
    raw = torch.zeros(1, 5, *GRID)
    raw[:, 0] = 1.0
    raw[0, :, 7:9, 2:4] = torch.tensor([0.0, 3.0, 0.0, 0.0, 4.0])[:, None, None]
    features = torch.cat([torch.randn(1, 8, *GRID), raw], dim=1)
    prototypes = torch.cat([torch.randn(1, 8), torch.tensor([[0.0, 6.0, 0.0, 0.0, 8.0]])], dim=1)
    finest = locator(describe(descriptor, features, prototypes))[1].logits[0, 0].detach()
    assert int(finest.argmax()) == 4 * 6 + 1  # the cell of rows 6.7 to 8.3 and columns 1.7 to 3.3
    assert float(finest.max()) == pytest.approx(10.0, rel=0.05)  # the first gain


def test_only_the_gain_learns_from_similarity():
    descriptor, locator = comparing_head()
    features = torch.randn(1, 13, *GRID, requires_grad=True)
    locator(describe(descriptor, features, torch.randn(2, 13)))[0].logits.logsumexp(-1).sum().backward()
    assert features.grad[:, :8].abs().max() > 0
    assert features.grad[:, 8:].abs().max() == 0
    assert descriptor.gain.grad[0].abs() > 0


# --- the faster road ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [head, comparing_head])
@pytest.mark.parametrize("is_filtered", [False, True])
def test_a_search_says_what_reading_every_cell_and_the_locator_say(make, is_filtered):
    descriptor, locator = make()
    features, vectors = torch.randn(2, 8 + descriptor.compared, *GRID), torch.randn(3, 4, 8 + descriptor.compared)
    weights = descriptor.weights(vectors, example_shares(torch.rand(3, 4) > 0.3))
    torch.nn.init.normal_(descriptor.bias)
    added = tuple(torch.randn(2, 4, size**2) for size in SCALES) if is_filtered else ()
    looked = descriptor.look(features)
    with torch.no_grad():
        described = with_filters(descriptor.read(looked, weights), added)
        whole, (scales, presence) = locator(described), descriptor.search(looked, weights, added)
    torch.testing.assert_close(presence, described[..., -1, 0])
    for one, other in zip(whole, scales, strict=True):
        torch.testing.assert_close(other.logits, one.logits)
        assert other.size == one.size
        for cell in range(one.size**2):
            cells = torch.full((2, 4), cell)
            for first, second in zip(one.at(cells), other.at(cells), strict=True):
                torch.testing.assert_close(first, second)
    with torch.no_grad():  # what is kept in half precision is searched in whole
        halves = descriptor.search(looked.half(), weights, added)[0]
    for one, other in zip(scales, halves, strict=True):
        assert other.logits.dtype == torch.float32
        torch.testing.assert_close(other.logits, one.logits, atol=0.05, rtol=0.01)
    cells = torch.tensor([[0, 5, 9, 15], [3, 3, 12, 7]])  # each keypoint of each picture at a cell of its own
    for first, second in zip(whole[0].at(cells), scales[0].at(cells), strict=True):
        torch.testing.assert_close(first, second)
    for way in (decode, decode_agreed):
        first, second = way(whole, 140), way(scales, 140)
        torch.testing.assert_close(first.points_input, second.points_input)
        torch.testing.assert_close(first.covariances, second.covariances)
    places = torch.randint(0, 12 * 12, (2, 4))
    torch.testing.assert_close(
        read_at(whole, places, 12, 140).points_input, read_at(scales, places, 12, 140).points_input
    )


CALIBRATION = Calibration(
    temperature=2.75, spread=1.2, cell=0.1, radii=(0.7, 2.0, 3.7), right=(-0.9, 0.8, 0.8), presence=(0.0, 0.1, 0.2, 1.0)
)


@pytest.mark.parametrize("decoding", ["mean", "agreed", "gathered"])
@pytest.mark.parametrize("is_calibrated", [False, True])
@pytest.mark.parametrize("gain", [0.0, 3.0])
def test_a_model_finds_by_a_search_what_it_finds_by_describing_every_cell(decoding, is_calibrated, gain):
    torch.manual_seed(0)
    settings = preset("salvit-lite0", "swift")
    own = replace(settings.head, decoding=decoding, filter_gain=gain)
    encoder = replace(settings.encoder, keeps_raw=True)
    model = build_model(replace(settings, input_size=96, saliency="none", encoder=encoder, head=own), None)
    model.calibration = CALIBRATION if is_calibrated else None
    channels, side = model.encoder.channels, model.encoder.grid_hw[0]
    features, vectors = torch.randn(3, channels, side, side), torch.randn(2, 4, channels)
    mask = torch.tensor([[True, True, False, False], [True, False, True, False]])  # nobody has the last
    filters = torch.randn(4, channels) if gain else None
    with torch.no_grad():
        asked = replace(model.ask(vectors, mask), filters=filters)
        fast = model.find(asked, features)
        looked = model.descriptor.look(features)
        described = model.describe(asked, features)
        slow = model.conclude(model.locator(described), model.presence(described), asked.shots)
        again = model.find(asked, features, looked)
    for found in (fast, again):
        for name in ("points_input", "scores", "covariances", "presence"):
            torch.testing.assert_close(getattr(found, name), getattr(slow, name), atol=1e-4, rtol=1e-4)
