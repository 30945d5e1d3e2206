import numpy as np
import pytest

from salvit.formats import read, write

pandas = pytest.importorskip("pandas", reason="pandas comes with the extra 'formats'")
HEADER = "scorer,,,me,me,me,me\nbodyparts,,,nose,nose,tail,tail\ncoords,,,x,y,x,y\n"


def project(tmp_path, text, name="CollectedData_me.csv"):
    folder = tmp_path / "labeled-data" / "walk"
    folder.mkdir(parents=True)
    (folder / "img01.png").write_bytes(b"picture")
    (folder / name).write_text(text)
    return folder / name


def test_a_table_that_deeplabcut_wrote_is_read(tmp_path):
    path = project(tmp_path, HEADER + "labeled-data,walk,img01.png,1.5,2.5,,\n")
    (marked,) = read(path).images
    assert marked.path == path.parent / "img01.png" and marked.names == ("nose", "tail")
    assert marked.points[0].tolist() == [1.5, 2.5] and marked.marked.tolist() == [True, False]
    assert read(path.parent).images[0].path == marked.path  # the folder will do


@pytest.mark.parametrize("row", ["labeled-data/walk/img01.png", "labeled-data\\walk\\img01.png"])
def test_an_old_table_with_one_index_column_is_read(tmp_path, row):
    header = "scorer,me,me\nbodyparts,nose,nose\ncoords,x,y\n"
    path = project(tmp_path, f"{header}{row},1,2\n")
    (marked,) = read(path).images
    assert marked.path == path.parent / "img01.png" and marked.points.tolist() == [[1, 2]]


def test_a_table_of_several_individuals_gives_an_object_each(tmp_path):
    header = "scorer,,,me,me,me,me\nindividuals,,,one,one,two,two\nbodyparts,,,nose,nose,nose,nose\ncoords,,,x,y,x,y\n"
    path = project(tmp_path, header + "labeled-data,walk,img01.png,1,2,3,4\nlabeled-data,walk,img02.png,,,5,6\n")
    assert [marked.points.tolist() for marked in read(path).images] == [[[1, 2]], [[3, 4]], [[5, 6]]]


def test_pandas_opens_what_is_written_with_deeplabcuts_header(marks, tmp_path):
    path = tmp_path / "walk" / "CollectedData_ann.csv"
    write(marks, path)
    table = pandas.read_csv(path, header=[0, 1, 2], index_col=[0, 1, 2])
    store = pandas.read_hdf(path.with_suffix(".h5"))
    for frame in (table, store):
        assert list(frame.columns.names) == ["scorer", "bodyparts", "coords"]
        assert list(frame.index) == [("labeled-data", "walk", "a b.png"), ("labeled-data", "walk", "c.png")]
        assert set(frame.columns.get_level_values("scorer")) == {"ann"}
        assert frame[("ann", "left_eye", "x")].iloc[0] == 10.25 and np.isnan(frame[("ann", "left_eye", "y")].iloc[1])
    assert (path.parent / "a b.png").is_file()


def test_several_individuals_are_opened_by_pandas_too(herd, tmp_path):
    write(herd, tmp_path / "walk" / "CollectedData_ann.h5")
    frame = pandas.read_hdf(tmp_path / "walk" / "CollectedData_ann.h5")
    assert list(frame.columns.names) == ["scorer", "individuals", "bodyparts", "coords"]
    assert frame[("ann", "individual2", "nose", "x")].iloc[0] == 0.5
    assert frame["ann"]["individual2"].iloc[1].isna().all()


def test_text_in_the_h5_is_of_the_kind_that_older_pandas_reads(marks, tmp_path):
    import tables

    write(marks, tmp_path / "walk" / "CollectedData_ann.h5")
    with tables.open_file(tmp_path / "walk" / "CollectedData_ann.h5") as file:
        (group,) = file.root._f_iter_nodes()
        assert group._v_name == "df_with_missing"
        kinds = {n._v_attrs.kind for n in group._f_iter_nodes() if "level" in n._v_name}
    assert kinds == {"string"}


def test_the_h5_says_what_the_csv_says(marks, tmp_path, assert_same):
    write(marks, tmp_path / "walk" / "CollectedData_ann.csv")
    assert_same(marks, read(tmp_path / "walk" / "CollectedData_ann.h5"), has_boxes=False)


def test_a_path_that_leads_out_of_the_project_is_named_and_the_rest_goes_on(tmp_path):
    path = project(tmp_path, HEADER + "labeled-data,..,secret.png,1,2,,\nlabeled-data,walk,img01.png,1,2,,\n")
    support = read(path)
    assert len(support.images) == 1 and "leads out of the project" in support.problems[0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("scorer,,,me,me\ncoords,,,x,y\n", "no row bodyparts"),
        ("scorer,,,me\nbodyparts,,,nose\ncoords,,,x\n", "no columns x and y for nose"),
        (HEADER + "labeled-data,walk,img01.png,1,2\n", "line 4: 5 cells, expected 7"),
    ],
)
def test_a_table_that_is_not_deeplabcuts_is_an_error_that_says_why(tmp_path, text, message):
    with pytest.raises(ValueError, match=message):
        read(project(tmp_path, text))


def test_an_h5_of_something_else_is_an_error(tmp_path):
    pandas.DataFrame({"a": [1.0]}).to_hdf(tmp_path / "other.h5", key="x")
    with pytest.raises(ValueError, match="not a DeepLabCut table"):
        read(tmp_path / "other.h5")
