import numpy as np
import pytest

import salvit
from salvit.predict import Query, choose_device, detect, find_images, learn, load
from salvit.types import Detection, Failure


def test_points_are_found_in_other_pictures(match, marked_folder):
    pack = learn(match, marked_folder / "support.json")
    found = list(detect(match, pack, sorted((marked_folder / "queries").iterdir())))
    assert [result.path.name for result in found] == ["1.png", "2.png", "3.png"]
    for result in found:
        assert isinstance(result, Detection) and result.image_hw == (240, 320) and result.located.all()
        assert np.abs(result.points - [[60, 80], [250, 150], [120, 200]]).max() < 17
    assert pack.skeleton == (("nose", "tail"),)


def test_with_a_box_supports_and_queries_are_cropped_alike(match, marked_folder):
    pack = learn(match, marked_folder / "support.json", cropped=True)
    (found,) = detect(match, pack, [marked_folder / "queries" / "1.png"], box=(40, 60, 270, 220))
    assert np.abs(found.points - [[60, 80], [250, 150], [120, 200]]).max() < 14
    assert found.box == (40, 60, 270, 220)


def test_without_a_box_of_its_own_a_support_is_cropped_to_its_points(match, marked_folder):
    pack = learn(match, marked_folder / "support.csv", cropped=True)
    (found,) = detect(match, pack, [marked_folder / "queries" / "1.png"], box=(40, 60, 270, 220))
    assert np.abs(found.points - [[60, 80], [250, 150], [120, 200]]).max() < 17


def test_a_mark_outside_its_objects_box_is_not_learnt_and_said(match, marked_folder):
    import json

    from salvit.data.support import read_support

    coco = json.loads((marked_folder / "support.json").read_text())
    coco["annotations"][0]["bbox"] = [40, 60, 100, 160]  # the tail, at (250, 150), is far to its right
    (marked_folder / "narrow.json").write_text(json.dumps(coco))
    support = read_support(marked_folder / "narrow.json")
    pack = learn(match, support, cropped=True)
    (said,) = support.problems
    assert "tail at (250, 150) lies outside its object's box" in said and "taken as not marked" in said
    assert dict(zip(pack.names, pack.known.tolist(), strict=True))["tail"] is False


def test_a_picture_without_marks_is_left_out_in_silence(match, marked_folder):
    import json

    from salvit.data.support import read_support

    coco = json.loads((marked_folder / "support.json").read_text())
    coco["images"].append({"id": 8, "file_name": "queries/1.png", "width": 320, "height": 240})
    coco["annotations"].append({"id": 2, "image_id": 8, "category_id": 1, "keypoints": [0] * 9})
    (marked_folder / "some.json").write_text(json.dumps(coco))
    support = read_support(marked_folder / "some.json")
    assert len(learn(match, support, cropped=True).vectors) == 1 and support.problems == []


def test_a_bad_query_never_stops_the_others_and_order_is_kept(match, marked_folder):
    queries = sorted((marked_folder / "queries").iterdir())
    (marked_folder / "bad.jpg").write_text("no image")
    pack = learn(match, marked_folder / "support.json")
    for batch in (1, 2, 8):
        results = list(detect(match, pack, [queries[0], marked_folder / "bad.jpg", *queries[1:]], batch=batch))
        assert [isinstance(result, Failure) for result in results] == [False, True, False, False]
        assert "not an image" in results[1].reason


def test_the_batch_size_does_not_change_what_is_found(match, marked_folder):
    pack = learn(match, marked_folder / "support.json")
    queries = sorted((marked_folder / "queries").iterdir())
    one = [result.points for result in detect(match, pack, queries, batch=1)]
    three = [result.points for result in detect(match, pack, queries, batch=3)]
    assert np.allclose(one, three, atol=1e-2)


def test_a_score_below_the_least_is_not_located(match, marked_folder):
    pack = learn(match, marked_folder / "support.json")
    (found,) = detect(match, pack, [marked_folder / "queries" / "1.png"], min_score=1.1)
    assert not found.located.any()


def test_a_marked_picture_that_cannot_be_read_is_left_out_and_reported(match, marked_folder):
    path = marked_folder / "two.csv"
    path.write_text((marked_folder / "support.csv").read_text() + "absent.png,nose,3,4\n")
    support = salvit.read_support(path)
    pack = learn(match, support)
    assert pack.mask.shape[0] == 1 and "absent.png does not exist" in support.problems[0]
    (marked_folder / "none.csv").write_text("image,keypoint,x,y\nabsent.png,nose,3,4\n")
    with pytest.raises(ValueError, match="no marked picture can be used"):
        learn(match, marked_folder / "none.csv")


def test_files_folders_and_patterns_are_found_once_each(marked_folder):
    (marked_folder / "queries" / "notes.txt").write_text("not an image")
    folder = str(marked_folder / "queries")
    found, failures = find_images([folder, folder + "/1.png", folder + "/*.png", folder + "/*.bmp", "/absent"])
    assert [path.name for path in found] == ["1.png", "2.png", "3.png"]
    assert len(failures) == 2 and "no such file" in failures[1].reason


def test_a_folder_without_images_is_said_to_be_so(tmp_path):
    assert "holds no image" in find_images([str(tmp_path)])[1][0].reason


def test_unknown_models_and_devices_are_errors_that_list_the_known():
    with pytest.raises(ValueError, match="known: lite, dino, match"):
        load("magic")
    with pytest.raises(ValueError, match="present: cpu"):
        choose_device("tpu")


def test_importing_salvit_imports_nothing_heavy_and_lists_its_names():
    import subprocess
    import sys

    code = "import salvit, sys; print(sorted(set(sys.modules) & {'torch', 'numpy', 'PIL', 'typer', 'fastapi'}))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "[]"
    for name in salvit.__all__:
        assert getattr(salvit, name) is not None
    assert "load" in dir(salvit)
    with pytest.raises(AttributeError):
        salvit.nothing  # noqa: B018


def test_the_public_names_are_these():
    assert set(salvit.__all__) == {
        *("Detection", "Detector", "Failure", "Pack", "Prediction", "Support"),
        *("demo_queries", "demo_support", "detect", "draw_detection", "find_images"),
        *("learn", "load", "load_pack", "read_support", "save_pack"),
    }


def test_several_boxes_of_one_picture_give_a_detection_each(match, marked_folder):
    pack = learn(match, marked_folder / "support.json", cropped=True)
    path = marked_folder / "queries" / "1.png"
    queries = [Query(path, (40, 60, 270, 220), 0), Query(path, (0, 0, 20, 20), 1)]
    first, second = detect(match, pack, queries)
    assert np.abs(first.points - [[60, 80], [250, 150], [120, 200]]).max() < 14
    assert (first.index, second.index) == (0, 1) and second.box == (0, 0, 20, 20) and second.points.max() < 25


def test_a_small_object_in_a_large_picture_is_found_in_the_salient_box(match, marked_folder):
    from PIL import Image

    from salvit.data.creatures import draw_creature

    creature = draw_creature("fox", seed=3).image.resize((240, 180))
    large = Image.new("RGB", (1600, 1200), (120, 160, 110))
    large.paste(creature, (1100, 150))
    large.save(marked_folder / "large.jpg")
    pack = learn(match, marked_folder / "support.json", cropped=True)
    (found,) = detect(match, pack, [marked_folder / "large.jpg"], box="saliency")
    x1, y1, x2, y2 = found.box
    assert 1000 <= x1 < x2 <= 1450 and 50 <= y1 < y2 <= 430
    assert (found.points >= [x1 - 1, y1 - 1]).all() and (found.points <= [x2, y2]).all()


def test_pairs_come_from_the_caller_the_file_or_the_names(match, marked_folder):
    from dataclasses import replace

    support = salvit.read_support(marked_folder / "support.json")
    (marked,) = support.images
    named = replace(support, images=(replace(marked, names=("left_ear", "right_ear", "paw")),))
    assert learn(match, named).pairs == (("left_ear", "right_ear"),)
    stated = replace(named, pairs=(("left_ear", "paw"), ("left_ear", "tail")))
    assert learn(match, stated).pairs == (("left_ear", "paw"),)
    assert learn(match, stated, pairs=()).pairs == ()
    with pytest.raises(ValueError, match="names 'wing'"):
        learn(match, stated, pairs=(("wing", "paw"),))
