import numpy as np
import pytest

from salvit.formats import read, write

sleap_io = pytest.importorskip("sleap_io", reason="sleap-io comes with the extra 'formats'")


def test_sleap_io_opens_what_is_written(marks, tmp_path):
    write(marks, tmp_path / "out.slp")
    labels = sleap_io.load_slp(str(tmp_path / "out.slp"))
    assert labels.skeleton.node_names == ["nose", "left_eye", "right_eye"]
    assert [{node.name for node in s.nodes} for s in labels.skeleton.symmetries] == [{"left_eye", "right_eye"}]
    assert len(labels.videos) == 2  # one image sequence for each size
    first, second = labels.labeled_frames
    assert first.image.shape == (48, 64, 3)
    assert np.allclose(first.instances[0].numpy(), marks.images[0].points)
    assert np.isnan(second.instances[0].numpy()[1]).all()


def test_what_a_detector_found_is_a_predicted_instance(scored, tmp_path):
    write(scored, tmp_path / "out.slp")
    (instance,) = sleap_io.load_slp(str(tmp_path / "out.slp")).labeled_frames[0].instances
    assert type(instance).__name__ == "PredictedInstance"
    assert np.allclose(instance.points["score"], [0.9, 0.5, 0.25]) and instance.score == pytest.approx(0.55)


def test_where_a_person_marked_a_frame_the_found_points_do_not_count(marks, tmp_path):
    write(marks, tmp_path / "out.slp")
    labels = sleap_io.load_slp(str(tmp_path / "out.slp"), open_videos=False)
    found = sleap_io.PredictedInstance.from_numpy(np.ones((3, 2)), skeleton=labels.skeleton)
    labels.labeled_frames[0].instances.append(found)
    labels.save(str(tmp_path / "both.slp"), verbose=False)
    assert len(read(tmp_path / "both.slp").images) == 2


def test_pictures_that_moved_are_found_beside_the_file(marks, tmp_path):
    write(marks, tmp_path / "out.slp")
    (tmp_path / "moved").mkdir()
    (tmp_path / "out.slp").rename(tmp_path / "moved" / "out.slp")
    for marked in marks.images:
        marked.path.rename(tmp_path / "moved" / marked.path.name)
    assert all(marked.path.is_file() for marked in read(tmp_path / "moved" / "out.slp").images)


def test_a_frame_of_a_film_is_named_and_the_rest_goes_on(marks, tmp_path):
    write(marks, tmp_path / "out.slp")
    labels = sleap_io.load_slp(str(tmp_path / "out.slp"), open_videos=False)
    film = sleap_io.Video(filename="film.mp4", open_backend=False)
    marked = sleap_io.Instance.from_numpy(np.ones((3, 2)), skeleton=labels.skeleton)
    labels.append(sleap_io.LabeledFrame(video=film, frame_idx=7, instances=[marked]))
    labels.save(str(tmp_path / "film.slp"), verbose=False)
    support = read(tmp_path / "film.slp")
    assert len(support.images) == 2 and "frame 7 of film.mp4 lies in a film" in support.problems[0]
