"""AP-10K (Yu et al. 2021) → records: plain COCO keypoints, 54 species, images in ``data/``."""

from __future__ import annotations

from pathlib import Path

from salvit.data.coco import add_coco_file, find_json
from salvit.data.records import DataSet, RecordBuilder

KEYPOINTS = (
    "left_eye", "right_eye", "nose", "neck", "root_of_tail", "left_shoulder", "left_elbow", "left_front_paw",
    "right_shoulder", "right_elbow", "right_front_paw", "left_hip", "left_knee", "left_back_paw", "right_hip",
    "right_knee", "right_back_paw",
)  # fmt: skip


def read_ap10k(root: Path, *, keep_missing: bool = False) -> DataSet:
    """Read ``annotations/ap10k-{train,val,test}-split1.json`` together, or a single file given or alone in the folder.

    The three files of split 1 hold every annotation once; splits 2 and 3 divide the same annotations otherwise.
    """
    files = sorted((root / "annotations").glob("ap10k-*-split1.json")) if root.is_dir() else []
    builder = RecordBuilder(KEYPOINTS, keep_missing)
    if files:
        num_images = sum(add_coco_file(builder, file, root / "data", KEYPOINTS) for file in files)
    else:
        num_images = add_coco_file(builder, find_json(root), None, KEYPOINTS)
    return builder.finish("ap10k", root, num_images)
