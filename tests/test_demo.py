import json

import numpy as np

from salvit.demo import demo_queries, demo_support, draw_sheet
from salvit.predict import detect, learn


def test_the_demo_finds_most_points_within_a_tenth_of_the_creature(match):
    pack = learn(match, demo_support())
    truth = json.loads((demo_support().parent / "queries.json").read_text())
    by_name = {image["file_name"]: image["id"] for image in truth["images"]}
    names = truth["categories"][0]["keypoints"]
    right, total = 0, 0
    for found in detect(match, pack, demo_queries()):
        annotation = next(a for a in truth["annotations"] if a["image_id"] == by_name[found.path.name])
        triples = np.array(annotation["keypoints"]).reshape(-1, 3)
        limit = 0.1 * max(annotation["bbox"][2:])
        for n, name in enumerate(found.names):
            x, y, v = triples[names.index(name)]
            if v > 0:
                total += 1
                right += np.hypot(*(found.points[n] - [x, y])) <= limit
    assert total >= 60 and right / total > 0.8


def test_a_sheet_holds_all_pictures(tmp_path):
    from PIL import Image

    sheet = Image.open(draw_sheet(demo_queries(), tmp_path / "sheet.jpg", columns=3))
    assert sheet.size == (3 * 640, 2 * 480)
