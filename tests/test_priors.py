import numpy as np
import pytest
import torch
from PIL import Image

from salvit.data.images import fit_image
from salvit.model.build import build_model
from salvit.model.settings import preset
from salvit.priors import provider_for_pictures, provider_of, saliency_of_records, with_saliency
from salvit.recipes import recipe_from_table


def model(saliency, **more):
    table = {"preset": "salvit-lite0", "width": "narrow", "input_size": 96, "saliency": saliency, **more}
    return build_model(recipe_from_table({"model": table}).model, backbone_weights=None)


def test_a_model_gets_the_prior_that_its_settings_name(match):
    assert type(provider_of(model("spectral_residual"))).__name__ == "SpectralResidual"
    assert provider_of(model("none")) is None and provider_of(match) is None


def test_a_model_that_masks_nothing_gets_a_prior_in_training_alone():
    plain = model("rbd", encoder={"join": "raw"})
    assert provider_of(plain) is None
    assert type(provider_of(plain, for_training=True)).__name__ == "RobustBackground"
    assert provider_of(model("none"), for_training=True) is None


def test_a_prior_that_needs_the_users_files_is_an_error_that_says_so():
    with pytest.raises(ValueError, match="which is not at hand here"):
        provider_of(model("files"))


def test_the_map_of_a_fitted_picture_is_zero_in_its_padding():
    rng = np.random.default_rng(0)
    image = fit_image(Image.fromarray(rng.integers(0, 255, (50, 100, 3), dtype=np.uint8)), 96)
    with_map = with_saliency(image, lambda picture, source=None: np.ones(picture.shape[:2], dtype=np.float32))
    assert with_map.saliency.shape == (96, 96) and with_map.saliency[:20].max() == 0 and with_map.saliency[48, 48] > 0
    assert with_saliency(image, None) is image


@torch.no_grad()
def test_a_model_on_lite0_makes_the_learned_map_in_its_own_pass():
    """Both ways to the same map: a provider's pass and pixels, or the model's own pass and the decoder's cells."""
    from salvit.data.images import read_and_fit
    from salvit.demo import demo_queries

    lite = build_model(preset("salvit-lite0", "swift"))
    image = read_and_fit(demo_queries()[0], lite.input_size)
    assert image.fit.inner_hw != (lite.input_size, lite.input_size)  # some of it is padding
    assert provider_for_pictures(lite) is None and provider_of(lite) is not None
    given = with_saliency(image, provider_of(lite))
    plane = lite.prepare(*lite.tensors([image])).saliency[0].numpy()
    assert np.abs(plane - given.saliency).mean() < 0.01 and np.abs(plane - given.saliency).max() < 0.2
    assert lite.prepare(*lite.tensors([given])).saliency[0].numpy() == pytest.approx(given.saliency)
    top = image.fit.pad_xy[1]
    assert top > 8 and not plane[: top - 4].any()


@torch.no_grad()
def test_the_released_model_has_learnt_to_see_what_stands_out():
    """Its trained backbone's own map against the provider's, on pictures of a species that it never saw."""
    from salvit.data.images import read_and_fit
    from salvit.demo import demo_queries
    from salvit.predict import load

    lite = load("lite", device="cpu")
    for path in demo_queries():
        image = read_and_fit(path, lite.input_size)
        given = with_saliency(image, provider_of(lite)).saliency
        plane = lite.prepare(*lite.tensors([image])).saliency[0].numpy()
        assert np.corrcoef(plane.ravel(), given.ravel())[0, 1] > 0.8


def test_a_trained_lite0_makes_its_map_by_a_decoder_of_its_own():
    """The provider's knows the tokens of the published weights alone."""
    assert model("learned").prior is None
    trained = model("learned", backbone={"trained_blocks": 5, "bn": "frozen"})
    assert trained.makes_saliency and provider_for_pictures(trained) is None and trained.prior is not None
    assert saliency_of_records(trained) is None and saliency_of_records(trained, for_training=True) is not None
    assert saliency_of_records(model("learned")) is not None
    image = fit_image(Image.new("RGB", (100, 50), (10, 200, 30)), 96)
    plane = trained.prepare(*trained.tensors([image])).saliency[0]
    assert plane.shape == (96, 96) and not plane[:16].any() and 0 < plane[48, 48] < 1


def test_where_all_is_padding_nothing_stands_out():
    from salvit.geometry import MEAN_COLOUR
    from salvit.predict import load

    lite = load("lite", device="cpu")
    blank = torch.tensor(MEAN_COLOUR)[None, :, None, None].expand(1, 3, 320, 320) / 255.0
    assert not lite.prepare(blank).saliency.any()
