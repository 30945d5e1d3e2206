import numpy as np
import pytest

from salvit.backbones import build_backbone
from salvit.data.splits import open_problem
from salvit.saliency.spectral_residual import SpectralResidual
from salvit.teach_saliency import prepare_lessons, training_pictures


@pytest.mark.slow
def test_only_pictures_of_train_species_are_chosen(shared_data):
    chosen = training_pictures(shared_data, 10_000, seed=0)
    names = {name for name, _ in chosen}
    for dataset, unseen in (("animal_pose", "cow"), ("cub", None)):
        problem = open_problem(dataset, shared_data / dataset, unseen)
        for role in ("dev", "report"):
            assert not names & {f"{dataset}/{record.id.rpartition('#')[0]}" for record in problem.records[role]}
    assert len(names) == len(chosen) > 5000


@pytest.mark.slow
def test_the_choice_depends_on_the_seed_alone(shared_data):
    first, second, other = (training_pictures(shared_data, 5, seed) for seed in (0, 0, 1))
    assert first == second != other
    assert len(first) == 10


def test_lessons_are_made_once_and_do_not_depend_on_the_order(tmp_path, picture):
    paths = []
    for seed in range(2):
        picture(seed).save(tmp_path / f"{seed}.png")
        paths.append((f"toy/{seed}", tmp_path / f"{seed}.png"))
    backbone, teachers = build_backbone("lite0", weights=None), (SpectralResidual(),)
    first = list(prepare_lessons(paths, tmp_path / "one", backbone, teachers))
    second = list(prepare_lessons(paths[::-1], tmp_path / "two", backbone, teachers))
    assert [path.name for path in first] == [path.name for path in second[::-1]]
    assert all(a.read_bytes() == b.read_bytes() for a, b in zip(first, second[::-1], strict=True))
    times = [path.stat().st_mtime_ns for path in first]
    list(prepare_lessons(paths, tmp_path / "one", backbone, teachers))
    assert times == [path.stat().st_mtime_ns for path in first]


def test_a_missing_data_set_is_named(tmp_path):
    with pytest.raises(ValueError, match="animal_pose"):
        training_pictures(tmp_path, 1, 0)


def test_lessons_hold_no_labels(tmp_path, picture):
    from safetensors.numpy import load_file

    picture(0).save(tmp_path / "0.png")
    [path] = prepare_lessons(
        [("toy/0", tmp_path / "0.png")], tmp_path / "x", build_backbone("lite0", weights=None), (SpectralResidual(),)
    )
    lesson = load_file(path)
    assert set(lesson) == {"level0", "level1", "maps", "inside"}
    assert lesson["maps"].dtype == np.uint8
