"""The page of all tables (``docs/tables.md``), and the two tables whose figures do not come from episodes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from salvit.tables import paper
from salvit.tables.contents import MEASURED_ELSEWHERE, find_tables
from salvit.tables.render import NONE, Results, render_table

INTRO = """\
# Every table of the paper, beside ours

Written by `salvit tables --out docs/tables.md` from [results/](../results); do not edit. The paper is *From Saliency
to DINO: Saliency-guided Vision Transformer for Few-shot Keypoint Detection* (ICCV 2023).

**How to read it.** Lines in *italics* are the paper's figures; lines in **bold** are ours, ± half a 95 % interval (a
bootstrap over episodes for harmonic means, a t-interval for the rest); the line below is ours minus the paper's, also
where ours is worse. A dash: not run, or not in the paper. “no data”: the data set is not at hand here.

**Protocol.** Frozen lists: 1,000 episodes of novel and 1,000 of base keypoints, 5 queries each, on species that were
never trained on; 200 + 200 of up to 60 queries for +T; of CUB the first 300 + 300 for `match` here and for `lite` in
[its card](models/lite.md); 300 + 300 in the table of compared methods. Each result file says its own. PCK@0.1 of the
longer side of the true box; the headline is the harmonic mean of novel and base, as in the paper. Crops are
`gt-random`: a random window around the true box, as in the authors' code, drawn once for each record. Our copies of
the images are at most 384 px (Animal Pose) and 256 px (CUB, on its 50 validation species: those of the test are not in
our copy). Batch norm uses running statistics, and transduction looks at no label of a query; the authors' code does
otherwise in both.

**What was seen before.** Checkpoints are chosen on dev, other images of the species that are trained on; those of
“near” and “fresh” are the last of their training, without a look at dev. Settings were chosen on dev too, there also
by models that trained on cat, dog and horse and were scored on sheep: so a row of sheep is not one of a species that
nothing was chosen on, and cow alone was left out of that search. The decoder of the `learned` saliency was trained,
without labels, on 1,400 pictures of Animal Pose among others: it has seen pictures of cat, dog, horse and sheep, of
each of them also where it is the unseen species, and none that shows a cow ([its card](models/learned-saliency.md)).

**Budgets.** “The paper's full setting” is ResNet-50 or DINO ViT-S/16 at 384 px, the paper's widths, 40,000 episodes:
for a GPU. “Light” is a SalViT of half the width with a head that keeps the map spatial, on frozen, cached tokens: for
two CPU cores; “swift” is the same with a head whose weights are made from the prototype, trained for 3,000 episodes
(on ResNet-50 for 2,000 of one support and two queries, at 320 px, layer 4 trained too, by orthogonal steps); “near”
for 1,700, of which the first 1,000 hold back a second species too (cow with sheep, cat with dog), so that two problems
share them; “fresh” for 1,800, of which the first 800 hold back cow, horse and sheep, or cat and dog, and on views that
are drawn anew in every episode, where the others have one to three of each record; “study”, or “the studies' budget”,
is swift for 1,200 episodes on Lite0 and for 500 on DINOv2 (by orthogonal steps, which learn in half as many), so that
many lines can be compared: lines of one backbone have the same. One training, with 1 to 5 shots drawn anew for each
episode, serves 1 and 5 shots.
"""


def render_page(results: Results) -> str:
    """All tables."""
    tables = find_tables([])
    linked = [f"[{table.title}](#{table.name})" for table in tables]
    linked += ["[Saliency priors](#priors)", "[Parameters and time](#cost)"]
    parts = [INTRO, "**Tables.** " + " · ".join(linked) + "\n"]
    parts += [render_table(table, results) for table in tables]
    parts += [render_measured(name, results) for name in MEASURED_ELSEWHERE]
    return "\n".join(parts)


def render_measured(name: str, results: Results) -> str:
    """The table of priors or that of cost."""
    return render_priors(results) if name == "priors" else render_cost(results)


PROVIDERS = {
    "attentiveness": ("attentiveness, DINOv2", "DINO"),
    "rbd": ("RBD", "RBD"),
    "learned": ("learned (ours)", ""),
    "spectral_residual": ("spectral residual", ""),
    "onnx": ("U²-Net (small), the reference", ""),
    "none": ("none", ""),
}
"""Provider → what the page calls it, and the paper's row that it is to be read beside."""
PRIOR_FILES = {
    "saliency-animal_pose-cow": "cow of Animal Pose",
    "saliency-cub": "CUB",
    "saliency-creatures": "drawn creatures",
}


def render_priors(results: Results) -> str:
    """IoU and cost of saliency priors: Tables 1 and 9."""
    found = {title: _by_provider(results[name]) for name, title in PRIOR_FILES.items() if name in results}
    columns = [f"IoU, {title}" for title in found]
    sides = [f"{name}<br>*the paper's*" for name in ("IoU, Animal Pose", "IoU, AwA", "M", "ms")]
    header = ["", *sides[:2], *columns, sides[2], "M", sides[3], "ms"]
    lines = [_row(header), "|---|" + "---:|" * (len(header) - 1)]
    for provider, (label, stated) in PROVIDERS.items():
        rows = [figures.get(provider) for figures in found.values()]
        first = next((row for row in rows if row is not None), None)
        if first is None:
            continue
        iou = [
            NONE if row is None or row["iou_to_reference"] is None else _bold(row["iou_to_reference"]) for row in rows
        ]
        own = [_bold(first["added_parameters"] / 1e6, 2), _bold(first["ms_per_picture"])]
        lines.append(
            _row([label, *_paper_iou(stated), *iou, _paper_cost(stated, 0), own[0], _paper_cost(stated, 1), own[1]])
        )
    for stated in ("MNL", "WScribble", "SCRN"):
        blank = [NONE] * len(columns)
        cells = [*_paper_iou(stated), *blank, _paper_cost(stated, 0), NONE, _paper_cost(stated, 1), NONE]
        lines.append(_row([f"*{stated}*", *cells]))
    text = (
        '<a id="priors"></a>\n\n## Saliency priors\n\n'
        "*The paper's Tables 1 and 9.* Mean IoU of binarised maps with those of a reference (the paper's: SCRN; ours: "
        f"a small U²-Net), in percent, ours on {_counts(results)}; further parameters in millions; time a picture (the "
        "paper's: a GPU; ours: a CPU). Ours of `attentiveness` and `learned` hold the backbone's pass; the paper's "
        "0.03 ms for DINO is what comes on top of it ([saliency.md](saliency.md) has ours of that kind). MNL, "
        "WScribble and SCRN are not at hand. `attentiveness` is class-token attention, as the paper's DINO, mixed "
        "with the first principal component of the tokens.\n"
    )
    commands = [_in_data_folder(results[name]) for name in PRIOR_FILES if name in results]
    return "\n".join([text, *lines, "", *_folded(commands)])


def render_cost(results: Results) -> str:
    """Parameters and time a query: Table 2's columns."""
    measured = results.get("cost", {})
    ours = {row["model"]: row for row in measured.get("figures", ())}
    ours |= {"FSKD-R": ours["FSKD-D"]} if "FSKD-D" in ours else {}
    header = [
        "",
        "M<br>*the paper's*",
        "M",
        "gap",
        "ms, 1 shot<br>*the paper's*",
        "ms, 1 shot",
        "ms, 5 shots<br>*the paper's*",
        "ms, 5 shots",
    ]
    lines = [_row(header), "|---|" + "---:|" * (len(header) - 1)]
    for label in dict.fromkeys((*paper.COST, *ours)):
        stated = paper.COST.get(label)
        said = [NONE] * 3 if stated is None else [paper.rounded(value) for value in stated]
        row = ours.get(label)
        if row is None:
            lines.append(_row([label, said[0], NONE, "", said[1], NONE, said[2], NONE]))
            continue
        gap = "" if stated is None else f"{row['millions'] - stated[0]:+.1f}".replace("-", "−")
        times = [_bold(row["ms_1_shot"], 0), _bold(row["ms_5_shot"], 0)]
        lines.append(_row([label, said[0], _bold(row["millions"]), gap, said[1], times[0], said[2], times[1]]))
    where = (
        f"ours: {measured['hardware']}, {measured['threads']} thread(s)"
        if measured
        else "ours: not run on this hardware"
    )
    keypoints = measured.get("keypoints", 11)
    text = (
        '<a id="cost"></a>\n\n## Parameters and time\n\n'
        f"*The paper's Table 2.* Millions of parameters, and milliseconds from pixels to {keypoints} keypoints for one "
        f"query, its supports learnt anew (the paper's: a GPU; {where}).\n"
    )
    return "\n".join([text, *lines, "", *_folded([str(measured.get("command", "salvit tables cost --run"))])])


def _by_provider(result: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {row["provider"]: row for row in result["figures"]}


def _counts(results: Results) -> str:
    """How many pictures each of our figures is of."""
    found = {title: results[name].get("pictures") for name, title in PRIOR_FILES.items() if name in results}
    return ", ".join(f"{count} pictures ({title})" for title, count in found.items())


def _in_data_folder(result: Mapping[str, Any]) -> str:
    """A result's command, which may have been kept with the bare name of the data set's folder."""
    return re.sub(r"--root [^$\s]\S*", f"--root $SALVIT_DATA/{result.get('data')}", str(result["command"]))


def _paper_iou(stated: str) -> list[str]:
    """On Animal Pose and on AwA."""
    return [paper.rounded(iou) for iou in paper.PRIOR_IOU[stated]] if stated in paper.PRIOR_IOU else [NONE, NONE]


def _paper_cost(stated: str, which: int) -> str:
    return f"{paper.PRIOR_COST[stated][which]:g}" if stated in paper.PRIOR_COST else NONE


def _bold(value: float, digits: int = 1) -> str:
    return f"**{value:.{digits}f}**"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _folded(commands: Sequence[str]) -> Iterator[str]:
    yield from (
        "<details><summary>Commands</summary>",
        "",
        "```sh",
        *dict.fromkeys(commands),
        "```",
        "",
        "</details>",
        "",
    )
