"""Fixtures: the image, built once, and a volume for it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.image import Image, require_images
from support.packaging import ROOT, copy_compiled, copy_context

USER_ID = 6379


@pytest.fixture(scope="session")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    """The image of the Dockerfile."""
    require_images()
    folder = tmp_path_factory.mktemp("image")
    context = copy_context(folder / "context")
    copy_compiled(context)
    built = Image(folder / "image", (ROOT / "Dockerfile").read_text("utf-8"), context)
    yield built
    built.close()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A volume that belongs to the image's user, in folders that all users may enter."""
    for parent in (tmp_path, *tmp_path.parents[:2]):
        parent.chmod(0o711)
    folder = tmp_path / "data"
    folder.mkdir()
    os.chown(folder, USER_ID, USER_ID)
    return folder
