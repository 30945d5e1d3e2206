"""FSKD's own parts, by hand."""

import torch

from salvit.baselines.distinctiveness import positive
from salvit.baselines.fskd import LEAST_PRECISION, joint_loss, weight_by_distinctiveness
from salvit.model.locator import ScaleOutput, precision


def test_distinctiveness_is_positive_one_at_zero_and_inverse_for_the_opposite():
    values = torch.tensor([-3.0, 0.0, 3.0])
    low, middle, high = positive(values)
    assert low > 0 and middle == 1
    torch.testing.assert_close(low * high, torch.tensor(1.0))


def test_precision_is_multiplied_by_both_distinctivenesses():
    latents = torch.randn(1, 2, 4, 2, 3)
    scale = ScaleOutput(torch.zeros(1, 2, 4), torch.zeros(1, 2, 4, 2), latents)
    marked, seen = torch.tensor([1.0, 2.0]), torch.tensor([[[1.0, 3.0], [1.0, 1.0]]])
    (weighted,) = weight_by_distinctiveness((scale,), marked, seen)
    before, after = precision(latents), precision(weighted.latents)
    torch.testing.assert_close(after[0, 0, 0], before[0, 0, 0])
    torch.testing.assert_close(after[0, 1, 1], 6 * before[0, 1, 1])
    wanted = torch.tensor([[False, True]])
    one = ScaleOutput(*(field[:, 1:] for field in (scale.logits, scale.offsets, scale.latents)))
    torch.testing.assert_close(
        weight_by_distinctiveness((one,), marked, seen, wanted)[0].latents, weighted.latents[:, 1:]
    )


def test_the_joint_loss_is_the_likelihood_of_a_gaussian_of_six_numbers():
    torch.manual_seed(0)
    errors, latents = torch.randn(2, 6), torch.randn(2, 6, 9)
    omega = latents[1] @ latents[1].T / 9 + LEAST_PRECISION * torch.eye(6)
    gaussian = torch.distributions.MultivariateNormal(torch.zeros(6), precision_matrix=omega)
    constant = 3 * torch.log(torch.tensor(2 * torch.pi))
    loss = joint_loss(errors, latents, torch.tensor([False, True]))
    torch.testing.assert_close(loss, -gaussian.log_prob(errors[1]) - constant, atol=1e-4, rtol=1e-4)


def test_triplets_stay_within_one_query(small, episode):
    model = small("fskd")
    inputs = episode.tensors(model)
    wanted = torch.zeros_like(episode.valid)
    wanted[0, :2], wanted[1, :2] = True, True  # two of each query: no three
    points, valid = episode.points_input[wanted][None], torch.ones(1, 4, dtype=torch.bool)
    assert model.own_losses(model(*inputs, wanted), points, valid)["joint"] == 0
    wanted[0, 2] = True
    points, valid = episode.points_input[wanted][None], torch.ones(1, 5, dtype=torch.bool)
    assert model.own_losses(model(*inputs, wanted), points, valid)["joint"] != 0
