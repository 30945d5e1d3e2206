import pytest

from salvit.cli.tables_progress import Display, Estimate, duration


def test_durations_are_hours_and_minutes_or_minutes_and_seconds():
    assert [duration(seconds) for seconds in (5, 65.9, 3600, 7380)] == ["0:05 min", "1:05 min", "1:00 h", "2:03 h"]


def test_the_time_left_scales_with_how_long_what_is_done_took():
    estimate = Estimate([10.0, 30.0], now=100.0)
    assert estimate.left(100.0) == 40.0  # nothing is done: as guessed
    estimate.inside(0.5)  # 5 of 40 took 10 seconds: twice as long as guessed
    assert estimate.left(110.0) == pytest.approx(70.0)
    estimate.finish()
    assert estimate.left(120.0) == pytest.approx(60.0)
    estimate.finish()
    assert estimate.left(180.0) == 0.0


def test_where_no_one_watches_a_line_tells_the_step_and_the_whole(capsys):
    from types import SimpleNamespace

    job = SimpleNamespace(name="a-cow", asks=(1, 2), seconds=10.0, train_seconds=8.0)
    with Display([job]) as display:
        display.begin(job)
        assert list(display.track([7, 8], 2, "encoding")) == [7, 8]
        display.end()
    said = capsys.readouterr().err
    assert "[1/1] a-cow: 2 results" in said and "encoding 0/2 · … left · all: about 0:10 min left" in said
