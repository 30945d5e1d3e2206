import numpy as np
import pytest
from PIL import Image

from salvit.data.images import fit_image
from salvit.model.build import build_model
from salvit.priors import provider_of, with_saliency
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
