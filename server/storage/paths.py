"""Paths of the files of the dataset."""

from __future__ import annotations

import os

from ..configuration.config import Config


def dump_path(config: Config) -> str:
    """The path of the snapshot: `dir` and `dbfilename`."""
    return os.path.join(os.fsdecode(config.dir), os.fsdecode(config.dbfilename))


def backup_folder(config: Config) -> str:
    """The absolute path of the folder of BACKUP: `dir` and `backupdirname`."""
    return os.path.join(os.path.abspath(os.fsdecode(config.dir)), os.fsdecode(config.backupdirname))
