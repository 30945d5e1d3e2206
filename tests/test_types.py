"""What is passed between the parts."""

import numpy as np

from salvit.types import Prediction


def test_a_point_must_be_known_well_placed_and_likely_there():
    scores, presence = np.array([[0.9, 0.9, 0.3, 0.9]]), np.array([[0.8, 0.2, 0.9, 0.9]])
    known = np.array([True, True, True, False])
    found = Prediction(("a", "b", "c", "d"), np.zeros((1, 4, 2)), scores, presence, np.zeros((1, 4, 2, 2)), known)
    assert found.located(0, 0.5).tolist() == [True, False, False, False]
    assert found.located(0, 0.0).tolist() == [True, True, True, False]
