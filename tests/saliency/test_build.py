import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from PIL import Image

from salvit.backbones import build_backbone
from salvit.data.images import read_image
from salvit.saliency import NAMES, build_provider
from salvit.saliency.attentiveness import Attentiveness
from salvit.saliency.learned import LearnedSaliency, SaliencyDecoder
from salvit.saliency.provider import check_picture, resize_map, shrink_picture, stretch


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    path = tmp_path_factory.mktemp("network") / "toy.onnx"
    shape = [1, 3, 32, 32]
    graph = helper.make_graph(
        [helper.make_node("Sigmoid", ["input"], ["output"])],
        "toy",
        [helper.make_tensor_value_info("input", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("output", TensorProto.FLOAT, shape)],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    path.with_suffix(".toml").write_text('input_hw = [32, 32]\nscale = "max"\n')
    return path


@pytest.fixture(scope="module")
def providers(network):
    """Every provider; networks with random weights, which may give nonsense but must give a map."""
    made = {name: build_provider(name) for name in ("rbd", "spectral_residual", "none", "files")}
    made["onnx"] = build_provider("onnx", network=network)
    made["learned"] = LearnedSaliency(build_backbone("lite0", weights=None), SaliencyDecoder().eval())
    made["attentiveness"] = Attentiveness(build_backbone("dinov2-s14", weights=None, attention_block=10))
    assert set(made) == set(NAMES)
    return made


def write_pictures(folder):
    rng = np.random.default_rng(0)
    pictures = {
        "black": np.zeros((40, 60, 3), dtype=np.uint8),
        "white": np.full((40, 60, 3), 255, dtype=np.uint8),
        "one_pixel": np.full((1, 1, 3), 128, dtype=np.uint8),
        "thin": rng.integers(0, 256, (2, 300, 3), dtype=np.uint8),
        "huge": np.kron(rng.integers(0, 256, (30, 40, 3), dtype=np.uint8), np.ones((100, 100, 1), dtype=np.uint8)),
        "grey": rng.integers(0, 256, (30, 50), dtype=np.uint8),
        "alpha": rng.integers(0, 256, (30, 50, 4), dtype=np.uint8),
    }
    for name, pixels in pictures.items():
        Image.fromarray(pixels).save(folder / f"{name}.png", compress_level=1)
        small = Image.fromarray(rng.integers(0, 256, (5, 7), dtype=np.uint8))
        small.save(folder / f"{name}.saliency.png")
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_pictures(tmp_path_factory.mktemp("pictures"))


@pytest.mark.parametrize("kind", ["black", "white", "one_pixel", "thin", "huge", "grey", "alpha"])
@pytest.mark.parametrize("name", NAMES)
def test_every_provider_gives_a_finite_map_of_the_right_size(providers, folder, name, kind):
    path = folder / f"{kind}.png"
    picture = np.asarray(read_image(path))
    saliency = providers[name](picture, path)
    assert saliency.shape == picture.shape[:2]
    assert saliency.dtype == np.float32
    assert np.isfinite(saliency).all()
    assert saliency.min() >= 0
    assert saliency.max() <= 1


def test_no_saliency_is_all_ones(providers):
    assert (providers["none"](np.zeros((3, 4, 3), dtype=np.uint8)) == 1).all()


def test_an_unknown_provider_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match="attentiveness, rbd, learned"):
        build_provider("mnl")


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [("rbd", {"network": "x.onnx"}, "onnx"), ("rbd", {"maps": "x"}, "files"), ("onnx", {}, "--network")],
)
def test_options_of_another_provider_are_refused(name, options, message):
    with pytest.raises(ValueError, match=message):
        build_provider(name, **options)


@pytest.mark.parametrize(
    "picture",
    [np.zeros((3, 4), np.uint8), np.zeros((3, 4, 4), np.uint8), np.zeros((3, 4, 3)), np.zeros((0, 4, 3), "u1")],
)
def test_anything_but_an_rgb_picture_is_refused(picture):
    with pytest.raises(ValueError, match="RGB picture"):
        check_picture(picture)


def test_shrinking_keeps_the_shape_and_never_enlarges():
    assert shrink_picture(np.zeros((300, 400, 3), np.uint8), 100).shape == (75, 100, 3)
    assert shrink_picture(np.zeros((30, 40, 3), np.uint8), 100).shape == (30, 40, 3)


def test_stretching_gives_zero_to_one_and_a_flat_map_nothing():
    assert stretch(np.array([2.0, 3.0, 4.0])).tolist() == [0.0, 0.5, 1.0]
    assert not stretch(np.full(3, 7.0)).any()


def test_a_resized_map_stays_between_zero_and_one():
    resized = resize_map(np.array([[0.0, 1.0]]), (3, 8))
    assert resized.shape == (3, 8)
    assert 0 <= resized.min() < resized.max() <= 1
