"""One drawn episode is learnt by heart, on every backbone, through the verbs that users call."""

import numpy as np
import pytest
import torch

from salvit.model.build import build_model
from salvit.model.losses import multi_scale_loss, total_loss
from salvit.model.morphology import exponent_regulariser

BACKBONES = [
    "salvit-lite0",
    pytest.param("salvit-dinov2", marks=pytest.mark.slow),
    pytest.param("salvit-dino-s16", marks=pytest.mark.slow),
    pytest.param("salvit-resnet50", marks=pytest.mark.slow),
]


def measure(model, episode):
    """Share of keypoints within 0.1 of the longer side of the box, mean error, mean stated deviation."""
    pack = model.learn([episode.support])
    prediction = model.detect(pack, episode.queries)
    hits, errors, deviations = [], [], []
    for row, (image, box) in enumerate(zip(episode.queries, episode.boxes, strict=True)):
        valid = episode.valid[row].numpy()
        truth = image.fit.to_image(episode.points_input[row].numpy())
        error = np.linalg.norm(prediction.points[row] - truth, axis=-1)[valid]
        hits.append(error <= 0.1 * max(box[2] - box[0], box[3] - box[1]))
        errors.append(error)
        deviations.append(np.sqrt(np.trace(prediction.covariances[row][valid], axis1=1, axis2=2)))
    return np.concatenate(hits).mean(), np.concatenate(errors).mean(), np.concatenate(deviations).mean()


@pytest.mark.parametrize("name", BACKBONES)
def test_one_creature_episode_is_learnt_by_heart(name, tiny_settings, creature_episode):
    torch.manual_seed(0)
    model = build_model(tiny_settings(name), None)
    episode = creature_episode(model.input_size)
    before = measure(model, episode)
    with torch.no_grad():
        support = model.prepare(*model.tensors([episode.support.image]))
        query = model.prepare(*model.tensors(episode.queries))
    points = torch.from_numpy(episode.support.points_input).float()[None]
    mask = torch.from_numpy(episode.support.visible)[None]
    trained = [parameter for name_, parameter in model.named_parameters() if not name_.startswith("backbone")]
    optimiser = torch.optim.Adam(trained, lr=1e-3)
    after = before
    for step in range(1, 201):
        output = model(support, points, mask, query)
        loss = multi_scale_loss(output.scales, episode.points_input, episode.valid, model.input_size)
        optimiser.zero_grad()
        total_loss(loss, exponent_regulariser(output.exponents), loss.new_zeros(())).backward()
        optimiser.step()
        if step % 20 == 0:
            after = measure(model, episode)
            if after[0] == 1.0 and after[1] < 0.3 * before[1] and after[2] < 0.5 * before[2]:
                break
    assert after[0] == 1.0, "PCK@0.1 is 100"
    assert after[1] < 0.3 * before[1], "the error shrinks"
    assert after[2] < 0.5 * before[2], "the stated uncertainty shrinks with it"
