import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from salvit.saliency.onnx_network import OnnxSaliency, OnnxSettings, network_input


def write_network(path, op="Identity"):
    """A network that gives its input back, or its sigmoid: three channels, 4 × 6."""
    node = helper.make_node(op, ["input"], ["output"])
    shape = [1, 3, 4, 6]
    graph = helper.make_graph(
        [node],
        "toy",
        [helper.make_tensor_value_info("input", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("output", TensorProto.FLOAT, shape)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path)
    return path


@pytest.fixture
def network(tmp_path):
    path = write_network(tmp_path / "toy.onnx")
    path.with_suffix(".toml").write_text(
        "input_hw = [4, 6]\nmean = [0.0, 0.0, 0.0]\nstd = [1.0, 1.0, 1.0]\nchannel = 2\n"
    )
    return path


def test_the_chosen_channel_comes_back_at_the_size_of_the_picture(network):
    picture = np.zeros((8, 12, 3), dtype=np.uint8)
    picture[..., 2] = 51
    saliency = OnnxSaliency(network)(picture)
    assert saliency == pytest.approx(np.full((8, 12), 0.2))


def test_input_is_scaled_normalised_and_ordered_as_the_sidecar_says():
    picture = np.zeros((2, 2, 3), dtype=np.uint8)
    picture[...] = (51, 102, 204)
    settings = OnnxSettings(input_hw=(1, 1), mean=(0.1, 0.2, 0.3), std=(0.5, 0.5, 0.5))
    assert network_input(picture, settings)[0, :, 0, 0] == pytest.approx([0.2, 0.4, 1.0])
    swapped = OnnxSettings(input_hw=(1, 1), mean=(0.1, 0.2, 0.3), std=(0.5, 0.5, 0.5), order="bgr")
    assert network_input(picture, swapped)[0, :, 0, 0] == pytest.approx([1.0, 0.4, 0.2])
    by_max = OnnxSettings(input_hw=(1, 1), mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0), scale="max")
    assert network_input(picture, by_max)[0, :, 0, 0] == pytest.approx([0.25, 0.5, 1.0])


def test_sigmoid_and_stretch_bring_the_output_to_one(tmp_path):
    path = write_network(tmp_path / "toy.onnx")
    picture = np.zeros((4, 6, 3), dtype=np.uint8)
    picture[0, 0, 0] = 255
    plain = {"input_hw": (4, 6), "mean": (0.0, 0.0, 0.0), "std": (1.0, 1.0, 1.0)}
    assert OnnxSaliency(path, OnnxSettings(**plain, activation="sigmoid"))(picture)[3, 3] == pytest.approx(0.5)
    stretched = OnnxSaliency(path, OnnxSettings(**plain, activation="stretch"))(picture)
    assert (stretched[0, 0], stretched[3, 3]) == (1.0, 0.0)


def test_a_network_without_weights_has_no_parameters(network):
    assert OnnxSaliency(network).num_parameters == 0


def test_a_missing_sidecar_is_named_with_an_example(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"toy\.toml.*input_hw"):
        OnnxSaliency(write_network(tmp_path / "toy.onnx"))


def test_a_misspelt_setting_is_refused(network):
    network.with_suffix(".toml").write_text("input_hw = [4, 6]\nmaen = [0.0, 0.0, 0.0]\n")
    with pytest.raises(ValueError, match="maen"):
        OnnxSaliency(network)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("input_hw = [4, 6]\noutput = 3", "1 outputs"),
        ("input_hw = [4, 6]\nchannel = 7", "shape"),
    ],
)
def test_an_output_that_is_not_there_is_refused(network, text, message):
    network.with_suffix(".toml").write_text(text)
    with pytest.raises(ValueError, match=message):
        OnnxSaliency(network)(np.zeros((4, 6, 3), dtype=np.uint8))


@pytest.mark.parametrize("text", ["input_hw = [0, 6]", "input_hw = [4, 6]\nstd = [0.0, 1.0, 1.0]", "input_hw = ["])
def test_a_sidecar_that_makes_no_sense_is_refused(network, text):
    network.with_suffix(".toml").write_text(text)
    with pytest.raises(ValueError, match=r"toy\.toml"):
        OnnxSaliency(network)


def test_a_file_that_is_no_network_is_refused(network):
    network.write_bytes(b"nothing")
    with pytest.raises(ValueError, match="not an ONNX network"):
        OnnxSaliency(network)


def test_a_missing_network_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"none\.onnx"):
        OnnxSaliency(tmp_path / "none.onnx")
