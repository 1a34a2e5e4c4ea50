"""What several tests share."""

from __future__ import annotations

import pytest
from fakeproject import Project


@pytest.fixture
def project(tmp_path):
    """Return a project with a fake database, of which nothing runs on after the test."""
    project = Project(tmp_path)
    yield project
    project.clean_up()
