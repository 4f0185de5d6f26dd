"""Folders import in one direction, and so do the rooms of a folder. Imports for type checking alone count as well."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
# The folders from which each folder imports.
FOLDERS = {
    "store": set(),
    "protocol": set(),
    "persistence": {"store", "protocol"},
    "replication": {"persistence", "protocol"},
    "commands": {"persistence", "store", "protocol"},
    "server": {"commands", "replication", "persistence", "store", "protocol"},
    "pipeline": {"persistence", "store", "protocol"},
    "testing": {"protocol"},
    "comparison": {"protocol"},
}
# The rooms of each folder: sub-folders, and modules that are in no sub-folder. A room imports only rooms after it.
ORDER = {
    "commands": [
        "registry",
        "admin",
        "cluster",
        "scripting",
        "connections",
        "keyspace",
        "geo",
        "sorting",
        "hashes",
        "sets",
        "sorted_sets",
        "arrays",
        "hyperloglog",
        "lists",
        "bits",
        "strings",
        "streams",
        "policies",
        "execution",
        "observing",
        "clients",
        "permissions",
        "core",
    ],
    "server": [
        "main",
        "lifecycle",
        "supervision",
        "app",
        "stopping",
        "periodic",
        "sockets",
        "replication",
        "eviction",
        "requests",
        "reports",
        "storage",
        "configuration",
    ],
    "persistence": [
        "check_aof",
        "check_file",
        "aof",
        "backup",
        "snapshot",
        "companion_records",
        "writer",
        "folder",
        "loading",
        "records",
        "grammar",
        "rows",
        "rdb",
        "placing",
        "policy_lines",
        "background",
        "manifest",
        "files",
        "lock",
        "syncing",
        "checksum",
        "errors",
    ],
    "comparison": [
        "main",
        "report",
        "second_look",
        "survey",
        "pair",
        "keys",
        "members",
        "arrays",
        "pieces",
        "connection",
        "address",
        "errors",
    ],
    "pipeline": [
        "__main__",
        "discovery",
        "jobs",
        "session",
        "java",
        "source",
        "events",
        "writing",
        "reading",
        "aof",
        "columns",
        "connection",
        "options",
        "errors",
    ],
}
# Folders in which no modules import each other in a circle, within a room or across rooms.
ACYCLIC = ("commands", "comparison", "persistence", "pipeline", "protocol", "replication", "server", "store")


class Import(NamedTuple):
    """One imported name. Modules are named by their path from the root, with dots."""

    importer: str
    line: int
    target: str

    def __str__(self) -> str:
        return f"{self.importer}, line {self.line}: imports {self.target}"


def module_of(path: Path) -> str:
    """`pipeline/jobs/replay.py` -> `pipeline.jobs.replay`; a folder's `__init__.py` has the name of the folder."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def modules_of(folder: str) -> dict[str, Path]:
    """The modules of a folder, by name."""
    paths = [*(ROOT / folder).rglob("*.py"), *(ROOT / folder).rglob("*.pyx")]
    return {module_of(path): path for path in sorted(paths)}


def statements_of(path: Path) -> str:
    """The Python of a module; of a `.pyx` module the imports at its top level."""
    text = path.read_text("utf-8")
    if path.suffix == ".py":
        return text
    lines = [
        line if line.startswith(("from ", "import ")) and " cimport " not in line else "" for line in text.split("\n")
    ]
    return "\n".join(lines)


def imports_of(module: str, path: Path) -> Iterator[Import]:
    """Every name of this package that a module imports, in functions and under TYPE_CHECKING too."""
    package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    for node in ast.walk(ast.parse(statements_of(path))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.startswith("headrace."):
                    yield Import(module, node.lineno, alias.name.removeprefix("headrace."))
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) + 1 - node.level] if node.level else []
            words = [*base, *(node.module or "").split(".")]
            if not node.level:
                if words[0] != "headrace":
                    continue
                words = words[1:]
            for alias in node.names:
                yield Import(module, node.lineno, ".".join(filter(None, [*words, alias.name])))


def room_of(name: str) -> str | None:
    """`pipeline.jobs.replay.JOB` -> `jobs`; None for a folder itself."""
    return name.split(".")[1] if "." in name else None


def backward_imports(folder: str) -> list[str]:
    """The imports of a folder against its order."""
    ranks = {room: rank for rank, room in enumerate(ORDER[folder])}
    found = []
    for module, path in modules_of(folder).items():
        room = room_of(module)
        for one in imports_of(module, path):
            target = room_of(one.target)
            if not one.target.startswith(f"{folder}.") or target not in ranks:
                continue
            if room is None or ranks[target] < ranks[room]:
                found.append(str(one))
    return found


def circles(folder: str) -> list[list[str]]:
    """The circles of modules that import each other, each once, by the names of its modules."""
    modules = modules_of(folder)
    targets: dict[str, set[str]] = {}
    for module, path in modules.items():
        named = {one.target for one in imports_of(module, path)}
        # `from .room import name` imports a module of the room, or a name of the room itself.
        reached = {name if name in modules else name.rpartition(".")[0] for name in named}
        targets[module] = (reached & modules.keys()) - {module}
    reachable = {module: reach(module, targets) for module in modules}
    together = {
        tuple(sorted(other for other in found if module in reachable[other]))
        for module, found in reachable.items()
        if module in found
    }
    return sorted(map(list, together))


def reach(module: str, targets: dict[str, set[str]]) -> set[str]:
    """The modules that a module imports, and those that these import, and so on."""
    found: set[str] = set()
    todo = [module]
    while todo:
        new = targets[todo.pop()] - found
        found |= new
        todo += new
    return found


def foreign_imports(folder: str) -> list[str]:
    """The imports of a folder from folders that it must not import."""
    forbidden = FOLDERS.keys() - FOLDERS[folder] - {folder}
    return [
        str(one)
        for module, path in modules_of(folder).items()
        for one in imports_of(module, path)
        if one.target.split(".")[0] in forbidden
    ]


@pytest.mark.parametrize("folder", FOLDERS)
def test_folders_import_only_folders_below_them(folder: str) -> None:
    assert foreign_imports(folder) == []


@pytest.mark.parametrize("folder", FOLDERS)
def test_plain_twin_is_imported_only_in_place_of_its_compiled_twin(folder: str) -> None:
    """What both twins or other modules use is in a module that neither twin owns."""
    for module, path in modules_of(folder).items():
        found = {one.target for one in imports_of(module, path)}
        plain = {target for target in found if "_plain." in target}
        assert {target.replace("_plain.", ".") for target in plain} <= found, module


@pytest.mark.parametrize("folder", ORDER)
def test_every_room_has_a_place_in_the_order(folder: str) -> None:
    rooms = {room_of(module) for module in modules_of(folder)} - {None}
    assert rooms == set(ORDER[folder])


@pytest.mark.parametrize("folder", ORDER)
def test_rooms_import_only_rooms_after_them(folder: str) -> None:
    assert backward_imports(folder) == []


@pytest.mark.parametrize("folder", ACYCLIC)
def test_no_modules_import_each_other_in_a_circle(folder: str) -> None:
    assert circles(folder) == []


def test_foreign_import_is_named_with_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "protocol").mkdir()
    (tmp_path / "protocol" / "plain.py").write_text("from . import requests\nfrom ..store.errors import ReplyError\n")
    (tmp_path / "protocol" / "fast.pyx").write_text(
        "from cpython.ref cimport Py_INCREF\n\nfrom headrace.store import ids\n"
    )
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    assert foreign_imports("protocol") == [
        "protocol.fast, line 3: imports store.ids",
        "protocol.plain, line 2: imports store.errors.ReplyError",
    ]


def test_backward_import_is_named_with_its_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    top = tmp_path / "house"
    (top / "attic").mkdir(parents=True)
    (top / "cellar").mkdir()
    for empty in ("__init__.py", "attic/__init__.py", "attic/roof.py", "cellar/__init__.py"):
        (top / empty).touch()
    lines = ["from typing import TYPE_CHECKING", "if TYPE_CHECKING:", "    from ..attic.roof import Roof"]
    (top / "cellar" / "wine.py").write_text("\n".join(lines))
    (top / "attic" / "window.py").write_text("from ..cellar import wine\nfrom headrace.house.attic import roof\n")
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    monkeypatch.setitem(ORDER, "house", ["attic", "cellar"])
    assert backward_imports("house") == ["house.cellar.wine, line 3: imports house.attic.roof.Roof"]
    assert circles("house") == []
    (top / "attic" / "roof.py").write_text("def light():\n    from .window import GLASS\n")
    (top / "cellar" / "wine.py").write_text("import headrace.house.attic.roof\n")
    assert backward_imports("house") == ["house.cellar.wine, line 1: imports house.attic.roof"]
    assert circles("house") == [["house.attic.roof", "house.attic.window", "house.cellar.wine"]]
