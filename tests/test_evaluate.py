"""Evaluation end to end on drawn creatures: freeze, predict to a file, score the file."""

import dataclasses
import json

import numpy as np
import pytest

from salvit.data.creatures import write_creatures
from salvit.data.episodes import EpisodeSettings
from salvit.data.frozen import FrozenList, freeze, read_frozen, write_frozen
from salvit.data.splits import open_problem
from salvit.encoded_lists import encode_list, encode_mirrored, fit_view
from salvit.evaluate import (
    learn_episode,
    mark_view,
    part_of_list,
    predict_fine_tuned,
    predict_list,
    read_predictions,
    truth_of,
)
from salvit.results import make_result, write_result
from salvit.score import Outcomes, compare, episode_ne, episode_pck, score
from salvit.transductive import TransductiveSettings

ABOUT = {
    **{"data": "creatures", "problem": "x", "shots": 1, "seed": 0, "command": "…", "hardware": "…"},
    "protocol": {"transductive": False},
}


def track(items, total, what):
    return items


@pytest.fixture(scope="module")
def listed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("creatures")
    problem = _creature_problem(folder)
    values = freeze(problem, EpisodeSettings(shots=1, queries=2, crop="gt-random"), episodes=3, seed=0)
    write_frozen(values, folder / "list.json")
    return read_frozen(folder / "list.json", problem, purpose="report")


def _creature_problem(folder):
    from salvit.data.creatures import SPECIES

    write_creatures(folder / "data", SPECIES[:4], 12, 0)
    return open_problem("creatures", folder / "data", SPECIES[3])


@pytest.fixture(scope="module")
def predicted(listed, match, tmp_path_factory):
    path = tmp_path_factory.mktemp("run") / "predictions.jsonl"
    predict_list(match, listed, encode_list(match, listed, track=track), ABOUT, path, track=track)
    return path


def test_a_run_is_scored(listed, predicted):
    outcomes = compare(read_predictions(predicted), listed)
    figures = score(outcomes)
    assert set(figures["pck"]) == {"novel", "base"} and 0 <= figures["harmonic"] <= 100
    assert figures["pck"]["base"]["0.2"] >= figures["pck"]["base"]["0.1"] >= figures["pck"]["base"]["0.05"]
    assert 0 < figures["ne_interval"]["novel"] < 1
    assert len(figures["coverage"]) == 3 and figures["episodes"] == {"novel": 3, "base": 3}


def test_the_normalised_error_of_an_episode_is_the_mean_of_its_valid_keypoints():
    rows = 5
    blank = dict.fromkeys((field.name for field in dataclasses.fields(Outcomes)), np.zeros(rows))
    outcomes = Outcomes(
        **{
            **blank,
            "episode": np.array([0, 0, 0, 1, 2]),
            "distance": np.array([10.0, 30.0, 999.0, 5.0, 7.0]),
            "image_side": np.array([100.0, 100.0, 100.0, 50.0, 70.0]),
            "valid": np.array([True, True, False, True, False]),
        }
    )
    assert episode_ne(outcomes) == pytest.approx([0.2, 0.1])  # (0.1 + 0.3) / 2; the third has no valid keypoint


def test_coverage_is_counted_at_the_radii_that_the_predictions_state(listed, predicted):
    made = read_predictions(predicted)
    assert "ellipse_radii" not in made.about  # `match` is not calibrated
    stated = dataclasses.replace(made, about={**made.about, "ellipse_radii": [1e-9, 2.0, 1e9]})
    plain, other = (score(compare(one, listed)) for one in (made, stated))
    assert other["coverage"] == [0.0, plain["coverage"][1], 100.0]
    assert other["calibration"]["ellipse_radii"] == [1e-9, 2.0, 1e9]
    assert list(other["calibration"]["coverage_of_covariance_alone"].values()) == plain["coverage"]


def test_both_ways_learn_and_look_mirrored_as_detection_does(listed, match, tmp_path):
    from salvit.flip import learn_both_ways, lone_sides, look_mirrored, merge

    encoded = encode_list(match, listed, track=track)
    mirrored = encode_mirrored(match, listed, "both", track=track)
    predict_list(match, listed, encoded, ABOUT, tmp_path / "both.jsonl", ways="both", mirrored=mirrored, track=track)
    made = read_predictions(tmp_path / "both.jsonl")
    episode, kept, asked = learn_episode(match, listed, 0, encoded, mirrored)
    assert kept.pairs and set(kept.pairs) <= set(listed.problem.split.pairs)
    size = match.input_size
    marked = [
        dataclasses.replace(mark_view(view, episode, size), image=fit_view(view, None, size, None))
        for view in episode.supports
    ]
    alone = lone_sides(episode.names, kept.pairs, listed.problem.split.pairs)
    pack = dataclasses.replace(learn_both_ways(match, marked, kept.pairs, one_way=alone), pairs=kept.pairs)
    images = [fit_view(view, None, size, None) for view in episode.queries]
    found, _ = merge(match.locate(pack, asked), look_mirrored(match, pack, images), pack.pairs)
    order = [found.names.index(name) for name in episode.names]
    for row, view in enumerate(episode.queries):
        stated = np.array(made.rows[0, view.record.id]["points"])
        assert np.abs(stated - found.points[row, order]).max() < 0.5, "features are kept in half precision"


def test_mirrored_supports_alone_need_no_mirrored_queries(listed, match, tmp_path):
    encoded = encode_list(match, listed, track=track)
    supports = encode_mirrored(match, listed, "supports", track=track)
    assert {record for record, _ in supports.rows} == {
        view.record.id for index in range(len(listed)) for view in listed.draw(index).supports
    }
    one_way, both = (learn_episode(match, listed, 0, encoded, ways)[1] for ways in (None, supports))
    assert not np.allclose(one_way.vectors, both.vectors)
    predict_list(
        match, listed, encoded, ABOUT, tmp_path / "supports.jsonl", ways="supports", mirrored=supports, track=track
    )
    episode, pack, asked = learn_episode(match, listed, 0, encoded, supports)
    stated = read_predictions(tmp_path / "supports.jsonl").rows[0, episode.queries[0].record.id]["points"]
    found = match.locate(pack, asked)
    order = [found.names.index(name) for name in episode.names]
    assert np.allclose(stated, found.points[0, order], atol=1e-3)
    with pytest.raises(ValueError, match="every picture of the list mirrored"):
        predict_list(match, listed, encoded, ABOUT, tmp_path / "x.jsonl", ways="both", mirrored=supports, track=track)


def test_a_data_set_without_pairs_is_not_mirrored(listed, match):
    split = dataclasses.replace(listed.problem.split, pairs=())
    unsided = dataclasses.replace(listed, problem=dataclasses.replace(listed.problem, split=split))
    with pytest.raises(ValueError, match="creatures states no left/right pairs"):
        encode_mirrored(match, unsided, "supports", track=track)


def test_scoring_twice_gives_the_same_bytes(listed, predicted, tmp_path):
    for name in ("one.json", "two.json"):
        made = read_predictions(predicted)
        write_result(make_result(made.about, score(compare(made, listed)), listed.hash), tmp_path / name)
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "two.json").read_bytes()


def test_the_truth_as_prediction_scores_100_and_a_shifted_one_0(listed, predicted):
    made = read_predictions(predicted)

    def replaced(shift):
        rows = {}
        for (index, query), row in made.rows.items():
            episode = listed.draw(index)
            record = listed.records[query]
            points = [record.points[record.names.index(name)] + shift for name in episode.names]
            rows[index, query] = {**row, "points": np.asarray(points).tolist()}
        return score(compare(dataclasses.replace(made, rows=rows), listed))

    assert replaced(0.0)["harmonic"] == 100.0 and replaced(0.0)["oks"]["novel"] == 100.0
    assert replaced(500.0)["harmonic"] == 0.0


def test_labels_of_queries_never_reach_inference(listed, match, predicted, tmp_path):
    """Queries' points and visibility are scrambled; boxes and windows, a declared input, stay."""
    rng = np.random.default_rng(1)
    supports = {view.record.id for i in range(len(listed)) for view in listed.draw(i).supports}
    scrambled = {
        key: record
        if key in supports
        else dataclasses.replace(
            record,
            points=rng.uniform(0, 300, record.points.shape),
            v=rng.integers(0, 3, record.v.shape),
        )
        for key, record in listed.records.items()
    }
    assert any(view.record.id not in supports for i in range(len(listed)) for view in listed.draw(i).queries)
    other = FrozenList(listed.values, scrambled, listed.problem)
    predict_list(match, other, encode_list(match, other, track=track), ABOUT, tmp_path / "p.jsonl", track=track)
    one, two = read_predictions(predicted).rows, read_predictions(tmp_path / "p.jsonl").rows
    assert one == two


def scramble(listed, rng):
    """The list with other labels for every record that is never a support."""
    supports = {view.record.id for i in range(len(listed)) for view in listed.draw(i).supports}
    changed = {
        key: record
        if key in supports
        else dataclasses.replace(
            record, points=rng.uniform(0, 300, record.points.shape), v=rng.integers(0, 3, record.v.shape)
        )
        for key, record in listed.records.items()
    }
    assert len(supports) < len(changed)
    return dataclasses.replace(listed, records=changed)


@pytest.fixture(scope="module")
def together(tmp_path_factory):
    """A list whose episodes have as many queries as there are."""
    folder = tmp_path_factory.mktemp("together")
    problem = _creature_problem(folder)
    settings = EpisodeSettings(shots=1, queries=60, is_up_to=True, crop="gt-random")
    write_frozen(freeze(problem, settings, episodes=2, seed=0), folder / "list.json")
    return read_frozen(folder / "list.json", problem, purpose="report")


def predict(detector, listed, path, **settings):
    chosen = TransductiveSettings(**settings) if settings else None
    encoded = encode_list(detector, listed, track=track)
    predict_list(detector, listed, encoded, ABOUT, path, transductive=chosen, track=track)
    return read_predictions(path).rows


def test_all_queries_that_a_species_has_left_are_taken(together):
    assert {len(together.draw(index).queries) for index in range(len(together))} == {11}


def test_transduction_changes_predictions_and_kappa_one_changes_none(together, match, tmp_path):
    inductive = predict(match, together, tmp_path / "i.jsonl")
    assert predict(match, together, tmp_path / "k.jsonl", kappa=1.0) == inductive
    soft = predict(match, together, tmp_path / "s.jsonl", assignment="soft")
    assert soft != inductive and soft.keys() == inductive.keys()


@pytest.mark.parametrize("assignment", ["soft", "average"])
def test_labels_of_queries_never_reach_transduction(together, match, tmp_path, assignment):
    other = scramble(together, np.random.default_rng(1))
    one = predict(match, together, tmp_path / "a.jsonl", assignment=assignment, rounds=2)
    assert one == predict(match, other, tmp_path / "b.jsonl", assignment=assignment, rounds=2)


def test_only_the_oracle_and_the_authors_protocol_look_at_labels(together, match, tmp_path):
    other = scramble(together, np.random.default_rng(1))
    for number, settings in enumerate(({"assignment": "oracle"}, {"protocol": "paper", "eta": 3})):
        one = predict(match, together, tmp_path / f"{number}a.jsonl", **settings)
        assert one != predict(match, other, tmp_path / f"{number}b.jsonl", **settings)


def test_the_truth_of_an_episode_is_that_of_its_queries(together):
    episode = together.draw(0)
    truth = truth_of(episode, 320)
    assert truth.points_input.shape == (11, len(episode.names), 2) and bool(truth.visible.any())
    seen = truth.points_input[truth.visible]
    assert float(seen.min()) >= -0.5 and float(seen.max()) <= 319.5
    assert 0 < float(truth.box_sides.min()) and float(truth.box_sides.max()) <= 320.5


def test_a_part_of_a_list_has_the_first_episodes_and_queries_and_its_own_hash(together):
    part = part_of_list(together, queries=3, episodes=1)
    assert len(part) == 2 and part.hash != together.hash
    assert [view.record.id for view in part.draw(0).queries] == [
        view.record.id for view in together.draw(0).queries[:3]
    ]
    assert part_of_list(together, queries=3, episodes=1).hash == part.hash
    assert part_of_list(together, queries=60) is together
    novel = part_of_list(together, kind="novel")
    assert {novel.draw(i).kind for i in range(len(novel))} == {"novel"}
    with pytest.raises(ValueError, match="no episode of kind"):
        part_of_list(together, kind="other")


def test_occluded_views_are_kept_apart_and_clean_ones_shared(listed, match, tmp_path):
    clean = encode_list(match, listed, track=track)
    hidden = dataclasses.replace(listed, occluder="grey", probability=1.0)
    encoded = encode_list(match, hidden, known=clean, track=track)
    assert encoded.others is clean and all(key for _, key in encoded.rows)
    none = encode_list(match, dataclasses.replace(hidden, probability=0.0), known=clean, track=track)
    assert none is clean
    predict_list(match, hidden, encoded, ABOUT, tmp_path / "h.jsonl", track=track)
    predict_list(match, listed, clean, ABOUT, tmp_path / "c.jsonl", track=track)
    one, two = (read_predictions(tmp_path / name).rows for name in ("h.jsonl", "c.jsonl"))
    assert one.keys() == two.keys() and one != two


def test_predictions_of_another_list_or_cut_ones_are_refused(listed, predicted, tmp_path):
    made = read_predictions(predicted)
    with pytest.raises(ValueError, match="score them on the list that they belong to"):
        compare(dataclasses.replace(made, about={**made.about, "list_hash": "other"}), listed)
    with pytest.raises(ValueError, match="is the file cut"):
        compare(dataclasses.replace(made, rows=dict(list(made.rows.items())[:-1])), listed)
    (tmp_path / "cut.jsonl").write_text(predicted.read_text()[:-40])
    with pytest.raises(ValueError, match="not valid JSON"):
        read_predictions(tmp_path / "cut.jsonl")
    (tmp_path / "other.jsonl").write_text('{"schema": "theirs"}\n')
    with pytest.raises(ValueError, match="not a prediction file"):
        read_predictions(tmp_path / "other.jsonl")
    with pytest.raises(FileNotFoundError):
        read_predictions(tmp_path / "absent.jsonl")


def test_the_pck_of_an_episode_counts_only_what_is_valid(listed, predicted):
    outcomes = compare(read_predictions(predicted), listed)
    base = outcomes.where(outcomes.kind == "base")
    first = base.where(base.episode == base.episode[0])
    correct = (first.distance <= 0.1 * first.box_side) & first.valid
    assert episode_pck(base, 0.1)[0] == pytest.approx(correct.sum() / first.valid.sum())


def test_a_prediction_file_says_how_it_was_made(predicted):
    about = read_predictions(predicted).about
    assert about["protocol"] == {"transductive": False} and about["timing"]["ms_per_query"] > 0
    assert json.loads(predicted.read_text().splitlines()[1]).keys() == {
        *("episode", "query", "points", "scores", "presence", "covariances")
    }


@pytest.fixture(scope="module")
def tiny():
    import torch

    from salvit.model.build import build_model
    from salvit.recipes import recipe_from_table

    torch.manual_seed(0)
    settings = {"preset": "salvit-lite0", "width": "narrow", "saliency": "none", "input_size": 96}
    return build_model(recipe_from_table({"model": settings}).model, backbone_weights=None)


def test_fine_tuning_changes_predictions_and_leaves_the_weights(listed, tiny, tmp_path):
    before = tiny.weights_sha256
    for steps in (0, 2):
        predict_fine_tuned(tiny, listed, steps, ABOUT, tmp_path / f"{steps}.jsonl", track=track)
    assert tiny.weights_sha256 == before
    none, some = (read_predictions(tmp_path / f"{steps}.jsonl") for steps in (0, 2))
    assert none.rows != some.rows and score(compare(some, listed))["episodes"] == {"novel": 3, "base": 3}


def test_without_steps_it_is_the_usual_road(listed, tiny, tmp_path):
    predict_fine_tuned(tiny, listed, 0, ABOUT, tmp_path / "a.jsonl", track=track)
    predict_list(tiny, listed, encode_list(tiny, listed, track=track), ABOUT, tmp_path / "b.jsonl", track=track)
    one, two = (read_predictions(tmp_path / name).rows for name in ("a.jsonl", "b.jsonl"))
    for key, row in one.items():
        assert np.allclose(row["scores"], two[key]["scores"], atol=5e-3)  # the usual road keeps features as float16


def test_the_command_line_evaluates_scores_and_compares(listed, tmp_path, monkeypatch):
    from typer.testing import CliRunner

    from salvit.cli import app

    root = next(iter(listed.records.values())).path.parent.parent
    write_frozen(listed.values, tmp_path / "list.json")
    common = [
        "--data",
        "creatures",
        "--root",
        str(root),
        "--unseen",
        listed.problem.unseen,
        "--list",
        str(tmp_path / "list.json"),
    ]
    out, result = tmp_path / "p.jsonl", tmp_path / "r.json"
    done = CliRunner().invoke(app, ["evaluate", *common, "--out", str(out), "--result", str(result), "--device", "cpu"])
    assert done.exit_code == 0, done.output
    made = json.loads(result.read_text())
    assert made["model"] == "match:lite0" and made["harmonic"] is not None and str(root) not in made["command"]
    again = CliRunner().invoke(
        app, ["score", str(out), *common, "--out", str(tmp_path / "s.json"), "--against", str(out)]
    )
    assert again.exit_code == 0 and "+0.00 PCK@0.1" in again.output
    assert (tmp_path / "s.json").read_bytes() == result.read_bytes()


def test_the_command_line_evaluates_transductively_on_a_part(together, tmp_path):
    from typer.testing import CliRunner

    from salvit.cli import app

    root = next(iter(together.records.values())).path.parent.parent
    write_frozen(together.values, tmp_path / "list.json")
    common = ["--data", "creatures", "--root", str(root), "--unseen", together.problem.unseen]
    common += ["--list", str(tmp_path / "list.json"), "--queries", "8", "--episodes", "1"]
    out, result = tmp_path / "p.jsonl", tmp_path / "r.json"
    more = ["--transductive", "--eta", "2", "--out", str(out), "--result", str(result), "--device", "cpu"]
    done = CliRunner().invoke(app, ["evaluate", *common, *more])
    assert done.exit_code == 0, done.output
    assert "queries of an episode: 8" in done.output
    made = json.loads(result.read_text())
    assert made["model"] == "match:lite0+T" and made["protocol"]["transductive"] is True
    assert made["protocol"]["transduction"]["eta"] == 2 and "--transductive" in made["command"]
    assert "--queries 60 --up-to" in made["command"] and "--episodes 1 --queries 8" in made["command"]
    scored = CliRunner().invoke(app, ["score", str(out), *common, "--out", str(tmp_path / "s.json")])
    assert scored.exit_code == 0 and (tmp_path / "s.json").read_bytes() == result.read_bytes()
    wrong = CliRunner().invoke(app, ["evaluate", *common, *more, "--overwrite", "--assignment", "hard"])
    assert wrong.exit_code == 1 and "expected one of 'soft', 'average', 'oracle'" in str(wrong.exception)
    wrong = CliRunner().invoke(app, ["evaluate", *common, *more, "--overwrite", "--decoding", "best"])
    assert wrong.exit_code == 1 and "expected mean, agreed, gathered" in str(wrong.exception)
    wrong = CliRunner().invoke(app, ["evaluate", *common, *more, "--overwrite", "--decoding", "gathered"])
    assert wrong.exit_code == 1 and "match:lite0 has no scales to decode" in str(wrong.exception)
