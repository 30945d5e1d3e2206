"""A correction costs little."""

import pytest


@pytest.mark.slow
def test_a_corrected_keypoint_over_100_encoded_pictures_costs_at_most_the_encoding_of_5():
    from salvit.bench.page import run

    figures = run()  # the bound is 1; a fifth more for a shared machine: `salvit bench page` has the figure
    assert figures["correct_over_encode_5"] <= 1.2, figures
    assert figures["match_correct_over_encode_5"] <= 1.2, figures
