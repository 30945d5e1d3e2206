import torch

from salvit.geometry import MEAN_COLOUR
from salvit.model.encoder import EncoderInput
from salvit.model.own_saliency import TaughtPrior, with_own_saliency


def test_a_prior_learns_the_map_that_it_is_shown():
    """Two of the channels tell where the object is; soon the map says so, also for pictures not seen before."""
    torch.manual_seed(0)
    prior = TaughtPrior(4, width=16).train()
    optimizer = torch.optim.Adam(prior.parameters(), lr=0.01)

    def lesson() -> tuple[torch.Tensor, torch.Tensor]:
        where = (torch.rand(8, 1, 4, 4) > 0.5).float()
        raw = torch.cat([where, 1 - where, torch.randn(8, 2, 4, 4)], dim=1)
        return raw, where[:, 0].repeat_interleave(16, 1).repeat_interleave(16, 2)

    for _ in range(150):
        loss = prior.loss(*lesson())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    raw, saliency = lesson()
    found = prior.eval()(raw, torch.zeros(8, 3, 64, 64))
    assert found.shape == saliency.shape
    assert float(((found > 0.5) == (saliency > 0.5)).float().mean()) > 0.9


def test_it_does_not_change_the_tokens_that_it_reads():
    prior = TaughtPrior(4)
    raw = torch.randn(2, 4, 3, 3, requires_grad=True)
    prior.loss(raw, torch.rand(2, 48, 48)).backward()
    assert raw.grad is None and all(weight.grad is not None for weight in prior.parameters())


def test_padding_does_not_stand_out():
    prior = TaughtPrior(4).eval()
    images = torch.zeros(1, 3, 48, 48)
    images[:, :, :, 24:] = torch.tensor(MEAN_COLOUR).view(3, 1, 1) / 255.0
    found = prior(torch.randn(1, 4, 3, 3), images)[0]
    assert bool((found[:, :20] > 0).all()) and not found[:, 28:].any()


def test_users_get_the_map_that_the_model_makes_itself():
    prior = TaughtPrior(4).eval()
    batch = EncoderInput(torch.randn(2, 4, 3, 3), torch.zeros(2, 3, 48, 48), torch.rand(2, 48, 48))
    made = with_own_saliency(prior, batch)
    assert torch.equal(made.saliency, prior(batch.raw, batch.images)) and made.raw is batch.raw
    assert with_own_saliency(None, batch) is batch
