import pytest

from salvit.tables import paper


@pytest.mark.parametrize("row", paper.MAIN, ids=lambda row: f"{row[0]} {row[1]}")
def test_the_mean_of_the_five_species_is_the_one_that_the_paper_prints(row):
    figures = paper.MAIN[row]
    assert sum(figures[:5]) / 5 == pytest.approx(figures[5], abs=0.011)


def test_rows_that_stand_in_several_tables_agree():
    assert paper.REFINEMENT["inductive"][0] == paper.MAIN["SalViT (default)", 1][5]
    assert paper.REFINEMENT["soft"] == paper.PSEUDO_LABELS[60, 20]
    assert paper.REFINEMENT["soft"][0] == paper.MAIN["SalViT (default)+T", 1][5]
    assert paper.EXPONENTS["learnt"] == (paper.ABLATION["SalViT"][0], paper.ABLATION["SalViT"][3])


@pytest.mark.parametrize("occluder", paper.MASKING)
def test_masking_and_alignment_share_their_first_two_rows(occluder):
    masking, alignment = paper.MASKING[occluder], paper.ALIGNMENT[occluder]
    for one, other in (("nothing", "no mask"), ("picture, saliency", "mask")):
        assert (masking[one][0], *masking[one][2:]) == alignment[other]


def test_figures_are_rounded_as_by_hand():
    assert [paper.rounded(value) for value in (40.65, 24.25, 49.26, 0.0)] == ["40.7", "24.3", "49.3", "0.0"]
    assert paper.rounded(0.0895, 3) == "0.090" and paper.rounded(-2.25) == "-2.3"
