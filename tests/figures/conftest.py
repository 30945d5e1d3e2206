"""A small frozen list of drawn creatures, and a network that has learnt nothing."""

import numpy as np
import pytest
import torch

from salvit.data.creatures import SPECIES, write_creatures
from salvit.data.episodes import EpisodeSettings
from salvit.data.frozen import freeze, read_frozen, write_frozen
from salvit.data.splits import open_problem
from salvit.figures import Ground
from salvit.model.build import build_model
from salvit.recipes import recipe_from_table


@pytest.fixture(scope="session")
def maps_of():
    """Saliency that is the object's box."""

    def saliency_of(record):
        plane = np.zeros(record.image_hw, dtype=np.float32)
        x1, y1, x2, y2 = (int(side) for side in record.box)
        plane[y1:y2, x1:x2] = 0.9
        return plane

    return saliency_of


@pytest.fixture(scope="session")
def creatures(tmp_path_factory):
    """The folder of data/ and list.json: 4 episodes of each kind, 1 shot, 2 queries."""
    folder = tmp_path_factory.mktemp("figures")
    write_creatures(folder / "data", SPECIES[:2], 8, 0, size_hw=(96, 128))
    problem = open_problem("creatures", folder / "data", SPECIES[1])
    settings = EpisodeSettings(shots=1, queries=2, crop="gt-random")
    write_frozen(freeze(problem, settings, episodes=4, seed=0), folder / "list.json")
    return folder


@pytest.fixture(scope="session")
def listed(creatures):
    problem = open_problem("creatures", creatures / "data", SPECIES[1])
    return read_frozen(creatures / "list.json", problem, purpose="report")


@pytest.fixture(scope="session")
def tiny():
    torch.manual_seed(0)
    settings = {"preset": "salvit-lite0", "width": "narrow", "saliency": "rbd", "input_size": 96}
    return build_model(recipe_from_table({"model": settings}).model, backbone_weights=None)


@pytest.fixture(scope="session")
def make_ground(listed, tiny, maps_of):
    def make(seed=0, episodes=3, of=listed):
        track = lambda items, total, what: items  # noqa: E731
        return Ground(tiny, of, saliency_of=maps_of, seed=seed, episodes=episodes, track=track)

    return make


@pytest.fixture(scope="session")
def ground(make_ground):
    return make_ground()


@pytest.fixture(scope="session")
def rows_at():
    """Rows of a prediction file that say the truth, moved along x by shares of the box: ``shift(index, query, n)``."""

    def rows(listed, shift):
        made = []
        for index in range(len(listed)):
            episode = listed.draw(index)
            for number, view in enumerate(episode.queries):
                place = [view.record.names.index(name) for name in episode.names]
                x1, y1, x2, y2 = view.record.box
                shares = np.array([shift(index, number, n) for n in range(len(place))])
                points = view.record.points[place] + shares[:, None] * [max(x2 - x1, y2 - y1), 0.0]
                known = {"points": points, "covariances": [np.eye(2)] * len(place), "presence": [1.0] * len(place)}
                made.append({"episode": index, "query": view.record.id, **known})
        return made

    return rows
