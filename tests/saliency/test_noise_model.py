import pytest
import torch

from salvit.saliency.noise_model import (
    NUM_BINS,
    bias_for_share,
    bin_maps,
    count_emissions,
    count_values,
    estimate_truth,
    log_evidence,
    reliability,
)


def test_values_fall_into_sixteen_bins():
    assert bin_maps(torch.tensor([0, 15, 16, 255], dtype=torch.uint8)).tolist() == [0, 0, 1, NUM_BINS - 1]


def test_values_are_counted_by_truth_and_only_inside():
    bins = torch.tensor([[[[0, 0], [3, 3]]]])  # one view, one teacher, 2 × 2 cells
    truth = torch.tensor([[[0.25, 0.0], [1.0, 1.0]]])
    inside = torch.tensor([[[True, True], [True, False]]])
    counts = count_values(bins, truth, inside)
    assert counts[0, 0, 1, [0, 3]].tolist() == [0.25, 1.0]  # on foreground
    assert counts[0, 0, 0, [0, 3]].tolist() == [1.75, 0.0]  # on background
    assert counts.sum() == 3


def test_emissions_of_a_picture_lie_between_its_own_counts_and_those_of_all():
    counts = torch.zeros(2, 1, 2, NUM_BINS)
    counts[0, 0, :, 0] = 1000.0
    counts[1, 0, :, 1] = 1000.0
    tables = count_emissions(counts, strength=1000.0, smoothing=0.0)
    # Common table: half bin 0, half bin 1. Picture 0: (1000 + 500) / 2000 and 500 / 2000.
    assert tables[0, 0, 0, :2].tolist() == pytest.approx([0.75, 0.25])
    assert tables.sum(-1) == pytest.approx(torch.ones(2, 1, 2))


def test_evidence_is_the_log_ratio_and_is_bounded():
    emissions = torch.full((1, 1, 2, NUM_BINS), 0.1)
    emissions[0, 0, 1, 2] = 0.2
    emissions[0, 0, 1, 3] = 1e-9
    evidence = log_evidence(torch.tensor([[[[0, 2], [3, 0]]]]), emissions)
    assert evidence.flatten().tolist() == pytest.approx([0.0, 0.6931, -4.0, 0.0], abs=1e-4)


def test_a_teacher_is_believed_as_far_as_it_agrees_with_the_pupil():
    prior = torch.tensor([[[0.9, 0.1], [0.8, 0.2]]])
    evidence = torch.stack([prior * 3 - 1, -prior, torch.zeros_like(prior)], 1)  # agrees, contradicts, says nothing
    weights = reliability(evidence, prior, torch.ones(1, 2, 2, dtype=torch.bool))
    assert weights[0].tolist() == pytest.approx([1.0, 0.0, 0.0], abs=1e-6)


def test_agreement_outside_the_picture_does_not_count():
    prior = torch.tensor([[[0.9, 0.1, 0.9]]])
    evidence = torch.tensor([[[[1.0, 0.0, -9.0]]]])
    inside = torch.tensor([[[True, True, False]]])
    assert reliability(evidence, prior, inside).item() == pytest.approx(1.0)


def test_the_bias_brings_the_mean_to_the_share():
    logits = torch.tensor([-2.0, 0.0, 1.0, 5.0])
    assert (logits + bias_for_share(logits, 0.25)).sigmoid().mean().item() == pytest.approx(0.25, abs=1e-4)


def test_the_posterior_is_nearer_the_truth_than_the_pupil_and_than_each_teacher():
    generator = torch.Generator().manual_seed(0)
    truth = torch.zeros(20, 16, 16)
    truth[:, 4:12, 5:11] = 1

    def noisy(share):
        flips = torch.rand(truth.shape, generator=generator) < share
        return torch.where(flips, 1 - truth, truth)

    maps = torch.stack([noisy(0.25), noisy(0.3)], 1)
    prior = 0.3 + 0.4 * noisy(0.3)
    inside = torch.ones_like(truth, dtype=torch.bool)
    found = estimate_truth(prior, (maps * 255).byte(), inside, belief=1.0, share=truth.mean().item())

    def errors(values):
        return ((values > 0.5) != (truth > 0.5)).float().mean().item()

    assert errors(found) < 0.8 * min(errors(prior), errors(maps[:, 0]), errors(maps[:, 1]))
    assert found.mean().item() == pytest.approx(truth.mean().item(), abs=1e-3)


def test_nothing_is_foreground_outside_the_picture():
    inside = torch.tensor([[[True, True], [False, False]]])
    found = estimate_truth(
        torch.rand(1, 2, 2), torch.randint(0, 256, (1, 2, 2, 2)).byte(), inside, belief=0.5, share=0.5
    )
    assert not found[~inside].any()
