import dataclasses

import pytest
import torch
from safetensors.torch import save_file

from salvit.packs import check_pack, load_pack, save_pack
from salvit.types import Pack


@pytest.fixture
def pack():
    return Pack(
        vectors=torch.rand(2, 3, 4),
        mask=torch.tensor([[True, False, True], [True, False, False]]),
        names=("left_eye", "right_eye", "nose"),
        model="match:lite0",
        weights_sha256="ab" * 32,
        skeleton=(("left_eye", "nose"),),
        pairs=(("left_eye", "right_eye"),),
        extra={"match.note": torch.ones(2)},
        version="0.1.0",
    )


def test_a_pack_comes_back_as_it_was_saved(pack, tmp_path):
    again = load_pack(save_pack(pack, tmp_path / "eyes.safetensors"))
    for field in dataclasses.fields(Pack):
        one, other = getattr(pack, field.name), getattr(again, field.name)
        if field.name == "extra":
            assert {key: value.tolist() for key, value in one.items()} == {k: v.tolist() for k, v in other.items()}
        elif isinstance(one, torch.Tensor):
            assert torch.equal(one, other)
        else:
            assert one == other
    assert again.known.tolist() == [True, False, True]


def test_an_existing_file_is_left_alone_unless_asked(pack, tmp_path):
    path = save_pack(pack, tmp_path / "eyes.safetensors")
    with pytest.raises(FileExistsError, match="exists"):
        save_pack(pack, path)
    save_pack(pack, path, overwrite=True)
    assert [item.name for item in tmp_path.iterdir()] == ["eyes.safetensors"]


def test_what_is_no_pack_is_refused(tmp_path):
    save_file({"x": torch.zeros(1)}, tmp_path / "other.safetensors")
    (tmp_path / "broken.safetensors").write_bytes(b"nonsense")
    for name in ("other.safetensors", "broken.safetensors"):
        with pytest.raises(ValueError, match="not a pack of salvit"):
            load_pack(tmp_path / name)
    with pytest.raises(FileNotFoundError, match="does not exist"):
        load_pack(tmp_path / "absent.safetensors")


def test_a_pack_ends_in_safetensors(pack, tmp_path):
    with pytest.raises(ValueError, match=r"\.safetensors"):
        save_pack(pack, tmp_path / "eyes.bin")


def test_a_pack_of_other_weights_is_refused_and_both_are_named(pack, match):
    with pytest.raises(ValueError, match=f"abababababab.*{match.weights_sha256[:12]}"):
        check_pack(pack, match)
