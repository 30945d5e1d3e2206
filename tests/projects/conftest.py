"""A project with three pictures that need no files."""

from __future__ import annotations

import pytest

from salvit.projects import Project


@pytest.fixture
def project(tmp_path):
    opened = Project(tmp_path / "project")
    opened.add_images([(f"{number}.png", (240, 320)) for number in (1, 2, 3)])
    yield opened
    opened.store.close()


@pytest.fixture
def objects(project):
    return [picture["objects"][0]["id"] for picture in project.pictures()]
