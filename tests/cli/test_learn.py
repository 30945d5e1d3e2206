import pytest
from typer.testing import CliRunner

from salvit.cli import app
from salvit.packs import load_pack


@pytest.fixture
def learn(marked_folder, monkeypatch):
    monkeypatch.chdir(marked_folder)
    return lambda *words: CliRunner().invoke(app, ["learn", "--support", "support.json", *words])


def test_a_pack_is_written_once_and_left_alone_after(learn, marked_folder):
    result = learn("--out", "packs/thing.safetensors", "--cropped", "--pairs", "nose:tail")
    assert result.exit_code == 0, result.output
    pack = load_pack(marked_folder / "packs" / "thing.safetensors")
    assert pack.names == ("nose", "tail", "paw") and pack.is_cropped and pack.pairs == (("nose", "tail"),)
    again = learn("--out", "packs/thing.safetensors")
    assert isinstance(again.exception, FileExistsError) and "--overwrite" in str(again.exception)
    assert learn("--out", "packs/thing.safetensors", "--overwrite").exit_code == 0
    assert not load_pack(marked_folder / "packs" / "thing.safetensors").is_cropped


def test_a_mark_that_cannot_be_used_is_named_and_the_exit_code_says_so(learn, marked_folder):
    text = (marked_folder / "support.csv").read_text()
    (marked_folder / "support.csv").write_text(text + "absent.png,nose,3,4\n")
    result = learn("--support", "support.csv", "--out", "thing.safetensors")
    assert result.exit_code == 3 and "absent.png does not exist" in result.output
    assert len(load_pack(marked_folder / "thing.safetensors").mask) == 1


def test_a_pack_ends_in_safetensors(learn):
    result = learn("--out", "thing.bin")
    assert isinstance(result.exception, ValueError) and ".safetensors" in str(result.exception)


def test_pictures_are_learnt_mirrored_too_unless_that_is_refused(learn, marked_folder):
    vectors = []
    for more in ((), ("--no-mirror",)):
        assert learn("--out", "thing.safetensors", "--overwrite", "--pairs", "nose:tail", *more).exit_code == 0
        vectors.append(load_pack(marked_folder / "thing.safetensors").vectors)
    assert not vectors[0].equal(vectors[1])


@pytest.mark.parametrize(
    ("words", "message"),
    [(("--ways", "two"), "expected one, supports or both"), (("--ways", "both", "--zoom"), "leave one out")],
)
def test_ways_that_cannot_be_meant_are_refused_before_anything_is_read(words, message):
    asked = ["evaluate", "--data", "cub", "--root", "nowhere", "--list", "none.json", "--out", "x.jsonl", *words]
    result = CliRunner().invoke(app, asked)
    assert isinstance(result.exception, ValueError) and message in str(result.exception)
