import numpy as np
import pytest

import salvit
from salvit.data.support import read_support
from salvit.demo import demo_queries, demo_support
from salvit.predict import learn
from salvit.zoom import NEARER, nearer, nearer_pack


def test_a_picture_is_shown_again_near_the_points_and_coordinates_lead_back():
    path = demo_queries()[0]
    image = salvit.predict.read_and_fit(path, 128)
    middle = np.array([image.image_hw[1] / 2, image.image_hw[0] / 2])
    near = nearer(image, np.stack([middle - 20, middle + 20]), lambda shown: shown)
    assert near.fit.scale_xy.mean() > 1.5 * image.fit.scale_xy.mean()
    assert np.allclose(near.fit.to_image(near.fit.to_input(middle[None])), middle[None])


def test_a_pack_knows_its_examples_twice(match):
    pack = learn(match, demo_support(), zoom=True)
    near = nearer_pack(pack)
    assert near.vectors.shape == pack.vectors.shape and not near.vectors.equal(pack.vectors)
    assert near.names == pack.names and near.mask.equal(pack.mask)


def test_a_pack_that_was_not_made_for_it_is_refused(match):
    pack = learn(match, demo_support())
    assert NEARER not in pack.extra
    with pytest.raises(ValueError, match="salvit learn --zoom"):
        list(salvit.predict.detect(match, pack, demo_queries()[:1], zoom=True))


def test_a_second_look_finds_points_inside_the_picture(match):
    pack = learn(match, read_support(demo_support()), zoom=True)
    paths = demo_queries()[:2]
    once, twice = (list(salvit.predict.detect(match, pack, paths, zoom=zoom)) for zoom in (False, True))
    assert [found.path for found in twice] == [found.path for found in once]
    for first, second in zip(once, twice, strict=True):
        height, width = second.image_hw
        assert second.image_hw == first.image_hw and not np.allclose(first.points, second.points)
        assert ((second.points >= -1) & (second.points <= (width, height))).all()


def test_a_second_look_is_learnt_both_ways_as_the_first_was(match, picture, tmp_path):
    lines = ["image,keypoint,x,y"]
    for number, side in enumerate(("left", "right")):  # each picture shows one side
        picture(number).save(tmp_path / f"{number}.png")
        lines += [f"{number}.png,nose,60,80", f"{number}.png,{side}_paw,120,200"]
    (tmp_path / "marks.csv").write_text("\n".join(lines))
    pack = learn(match, tmp_path / "marks.csv", zoom=True)
    assert pack.pairs == (("left_paw", "right_paw"),) and pack.mask.all()
    assert (nearer_pack(pack).vectors.norm(dim=-1) > 0).all(), "no shot counts that taught nothing"
