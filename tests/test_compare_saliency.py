import numpy as np
import pytest

from salvit.backbones import build_backbone
from salvit.compare_saliency import (
    Labelled,
    RecallCurve,
    compare_providers,
    count_parameters,
    drawn_creatures,
    inside_boxes,
    labelled_pictures,
    score_iou,
)
from salvit.data.animal_pose import read_animal_pose
from salvit.saliency.learned import LearnedSaliency, SaliencyDecoder
from salvit.saliency.provider import NoSaliency
from salvit.saliency.spectral_residual import SpectralResidual

BOX = (2.0, 1.0, 4.0, 3.0)


class Perfect:
    name, settings = "perfect", ""

    def __call__(self, picture, source=None):
        return inside_boxes(picture.shape[:2], [BOX]).astype(np.float32)


def labelled(**kwargs):
    return Labelled(
        "a", np.array([[2.0, 1.0], [3.0, 2.0]]), (BOX,), drawn=np.zeros((5, 6, 3), dtype=np.uint8), **kwargs
    )


def test_boxes_cover_the_pixels_that_they_touch():
    inside = inside_boxes((4, 6), [(1.0, 1.0, 3.0, 2.0), (4.5, -2.0, 9.0, 0.5)])
    assert np.argwhere(inside).tolist() == [[0, 4], [0, 5], [1, 1], [1, 2]]


def test_a_perfect_map_has_area_one_a_blind_one_a_half_and_a_reversed_one_zero():
    for saliency, expected in ((Perfect()(np.zeros((5, 6, 3))), 1.0), (np.ones((5, 6)), 0.5)):
        curve = RecallCurve()
        curve.add(saliency.astype(np.float32), labelled().points, [BOX])
        assert curve.area() == pytest.approx(expected)
    curve = RecallCurve()
    curve.add(1 - Perfect()(np.zeros((5, 6, 3))), labelled().points, [BOX])
    assert curve.area() == pytest.approx(0.0)


def test_the_area_of_a_hand_worked_map():
    # One of two keypoints and one of four outside pixels at 1; the other keypoint at 0.5, the other pixels at 0:
    # the curve goes (0, 0) – (¼, ½) – (¼, 1) – (1, 1), the area is ¼ · ¼ + ¾ · 1.
    curve = RecallCurve()
    saliency = np.array([[1.0, 0.5, 1.0, 0.0, 0.0, 0.0]], dtype=np.float32)
    curve.add(saliency, np.array([[0.0, 0.0], [1.0, 0.0]]), [(0.0, 0.0, 2.0, 1.0)])
    assert curve.area() == pytest.approx(0.0625 + 0.75)


def test_each_picture_has_the_same_weight_outside_whatever_its_size():
    curve = RecallCurve()
    for width, value in ((10, 1.0), (1000, 0.0)):
        saliency = np.full((1, width), value, dtype=np.float32)
        curve.add(saliency, np.zeros((1, 2)), [(0.0, 0.0, 1.0, 1.0)])
    assert curve.outside[0] == curve.outside[255] == pytest.approx(1.0)


def test_no_keypoints_give_no_area():
    with pytest.raises(ValueError, match="no curve"):
        RecallCurve().area()


def test_iou_counts_pixels_at_least_at_the_threshold():
    mask = np.array([[True, True, False, False]])
    assert score_iou(np.array([[0.5, 0.4, 0.9, 0.0]]), mask) == pytest.approx(1 / 3)
    assert score_iou(np.zeros((1, 4)), np.zeros((1, 4), dtype=bool)) == 1.0


def test_providers_are_compared_to_masks_and_to_a_reference():
    picture = labelled(mask=inside_boxes((5, 6), [BOX]))
    perfect, blind = compare_providers([picture], {"perfect": Perfect(), "none": NoSaliency()}, reference="perfect")
    assert perfect.as_dict()["keypoint_area"] == 100
    assert perfect.as_dict()["iou_to_mask"] == 100
    assert perfect.as_dict()["iou_to_reference"] is None
    assert blind.as_dict()["iou_to_reference"] == pytest.approx(100 * 4 / 30, abs=0.01)


def test_only_networks_of_their_own_count_as_added_parameters():
    learned = LearnedSaliency(build_backbone("lite0", weights=None), SaliencyDecoder(width=64))
    assert count_parameters(learned) == 94_480
    assert count_parameters(NoSaliency()) == 0


def test_an_unknown_reference_is_refused():
    with pytest.raises(ValueError, match="among"):
        compare_providers([], {"none": NoSaliency()}, reference="rbd")


def test_creatures_come_with_masks_and_are_the_same_each_time():
    first, second = (list(drawn_creatures(2, seed=3)) for _ in range(2))
    assert (first[1].read() == second[1].read()).all()
    assert first[0].mask.any()
    [figures] = compare_providers(first, {"spectral_residual": SpectralResidual()})
    assert len(figures.mask_ious) == 2


@pytest.mark.slow
def test_report_pictures_hold_the_unseen_species_and_boxes_of_all(shared_data):
    dataset = read_animal_pose(shared_data / "animal_pose")
    pictures = labelled_pictures(dataset, "cow", "report", limit=20)
    assert len(pictures) == 20
    assert pictures == sorted(pictures, key=lambda one: one.name)
    by_file = {}
    for record in dataset.records:
        by_file.setdefault(record.id.rpartition("#")[0], []).append(record)
    for one in pictures:
        assert len(one.boxes) == len(by_file[one.name])
        assert any(record.species == "cow" for record in by_file[one.name])
        assert len(one.points) == sum(r.visible.sum() for r in by_file[one.name] if r.species == "cow")
