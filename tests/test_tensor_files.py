import errno
import os

import pytest
import torch

from salvit.tensor_files import read_tensors, write_tensors


def test_tensors_and_facts_come_back(tmp_path):
    write_tensors(tmp_path / "a.safetensors", {"x": torch.arange(6).view(2, 3).T}, "ours-1", {"note": "é"})
    tensors, facts = read_tensors(tmp_path / "a.safetensors", "ours-1", "one of ours")
    assert tensors["x"].tolist() == [[0, 3], [1, 4], [2, 5]] and facts == {"format": "ours-1", "note": "é"}


def test_another_format_a_broken_file_and_a_missing_one_are_errors(tmp_path):
    write_tensors(tmp_path / "a.safetensors", {"x": torch.zeros(1)}, "ours-1", {})
    (tmp_path / "b.safetensors").write_bytes(b"nonsense")
    with pytest.raises(ValueError, match="its format is 'ours-1', not 'ours-2'"):
        read_tensors(tmp_path / "a.safetensors", "ours-2", "one of ours")
    with pytest.raises(ValueError, match="is not one of ours"):
        read_tensors(tmp_path / "b.safetensors", "ours-1", "one of ours")
    with pytest.raises(FileNotFoundError, match="expected one of ours"):
        read_tensors(tmp_path / "c.safetensors", "ours-1", "one of ours")


def test_a_write_that_fails_leaves_what_was_there_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "a.safetensors"
    write_tensors(path, {"x": torch.zeros(3)}, "ours-1", {})

    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_tensors(path, {"x": torch.ones(3)}, "ours-1", {})
    assert read_tensors(path, "ours-1", "ours")[0]["x"].sum() == 0 and len(list(tmp_path.iterdir())) == 1
