import pytest
import torch
from safetensors import safe_open

from salvit.saliency.learned import load_decoder
from salvit.saliency.train_learned import LearnedSettings, mean_of_teachers, saliency_loss, save_decoder, train_decoder

SETTINGS = LearnedSettings(width=8, epochs=(3, 2), batch=8, rate=1e-2, share=0.3)


def toy_lessons(num_views=24, seed=0):
    """Features whose first channel knows the truth, and three teachers that flip a quarter of it."""
    generator = torch.Generator().manual_seed(seed)
    truth = torch.zeros(num_views, 16, 16)
    for view in truth:
        x, y = torch.randint(0, 3, (2,), generator=generator).tolist()
        view[4 * y : 4 * y + 8, 4 * x : 4 * x + 8] = 1
    fine = torch.randn(num_views, 112, 4, 4, generator=generator) * 0.1
    fine[:, 0] += torch.nn.functional.avg_pool2d(truth, 4)
    coarse = torch.randn(num_views, 320, 2, 2, generator=generator) * 0.1
    flips = torch.rand(num_views, 3, 16, 16, generator=generator) < 0.25
    maps = torch.where(flips, 1 - truth[:, None], truth[:, None])
    lessons = {
        "level0": fine.half(),
        "level1": coarse.half(),
        "maps": (maps * 255).byte(),
        "inside": torch.ones(num_views, 16, 16, dtype=torch.bool),
    }
    return lessons, truth


def test_the_mean_of_teachers_is_stretched_in_each_view_and_zero_outside():
    maps = torch.tensor([[[[100, 200, 0]], [[0, 100, 0]]]], dtype=torch.uint8)  # two teachers, three cells
    inside = torch.tensor([[[True, True, False]]])
    assert mean_of_teachers(maps, inside).flatten().tolist() == [0.0, 1.0, 0.0]


def test_the_padding_weighs_less_in_the_loss():
    logits, target = torch.zeros(1, 1, 2), torch.zeros(1, 1, 2)
    inside = torch.tensor([[[True, False]]])
    half = torch.log(torch.tensor(2.0))
    assert saliency_loss(logits, target, inside, 0.1).item() == pytest.approx(float((half + 0.1 * half) / 2))


def test_the_pupil_ends_better_than_every_teacher():
    lessons, truth = toy_lessons()
    decoder = train_decoder(lessons, LearnedSettings(width=16, epochs=(20, 15), batch=8, rate=1e-2, share=0.28))
    found = decoder([lessons["level0"].float(), lessons["level1"].float()]).sigmoid() > 0.5
    teachers = [((lessons["maps"][:, i] > 127) != truth.bool()).float().mean().item() for i in range(3)]
    assert (found != truth.bool()).float().mean().item() < 0.5 * min(teachers)


def test_the_same_seed_gives_the_same_weights_and_another_seed_others():
    lessons, _ = toy_lessons()
    first, second = (train_decoder(lessons, SETTINGS).state_dict() for _ in range(2))
    assert all(torch.equal(first[name], second[name]) for name in first)
    other = train_decoder(lessons, LearnedSettings(width=8, epochs=(3, 2), batch=8, rate=1e-2, share=0.3, seed=1))
    assert not torch.equal(other.state_dict()["mix.weight"], first["mix.weight"])


def test_a_stopped_run_ends_as_an_unbroken_one(tmp_path):
    lessons, _ = toy_lessons()
    whole = train_decoder(lessons, SETTINGS).state_dict()

    def stop(message):
        if message.startswith("round 1"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_decoder(lessons, SETTINGS, checkpoint=tmp_path / "run.checkpoint", on_epoch=stop)
    messages = []
    resumed = train_decoder(lessons, SETTINGS, checkpoint=tmp_path / "run.checkpoint", on_epoch=messages.append)
    assert messages[0].startswith("round 1 epoch 0")
    assert all(torch.equal(whole[name], value) for name, value in resumed.state_dict().items())


def test_a_checkpoint_of_other_settings_is_refused(tmp_path):
    lessons, _ = toy_lessons()
    train_decoder(lessons, SETTINGS, checkpoint=tmp_path / "run.checkpoint")
    with pytest.raises(ValueError, match="other settings"):
        train_decoder(lessons, LearnedSettings(width=8, epochs=(3, 2), batch=8), checkpoint=tmp_path / "run.checkpoint")


def test_saved_weights_load_as_they_were_to_half_precision(tmp_path):
    lessons, _ = toy_lessons()
    decoder = train_decoder(lessons, SETTINGS)
    path = tmp_path / "decoder.safetensors"
    save_decoder(decoder, path, {"teachers": "a b"})
    levels = [lessons["level0"].float(), lessons["level1"].float()]
    assert torch.allclose(load_decoder(path)(levels), decoder(levels), atol=0.05)
    with safe_open(path, "pt") as file:
        assert file.metadata() == {"teachers": "a b"}


@pytest.mark.parametrize(("values", "message"), [({"epochs": ()}, "epochs"), ({"share": 1.0}, "share")])
def test_settings_that_make_no_sense_are_refused(values, message):
    with pytest.raises(ValueError, match=message):
        LearnedSettings(**values)
