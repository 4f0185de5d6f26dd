"""Every error text in the source, found by reading the code: what a reply, or a refused start, may say.

A text is a literal that reaches an error class: directly, by a constant of a module, by a local variable, or as an
argument of a function that passes it on. What is filled in at run time is shown as `…`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("store", "protocol", "commands", "persistence", "replication", "server")
# Where the trees of errors begin.
ERROR_CLASSES = frozenset(
    {
        "ReplyError",
        "ScriptError",
        "ProtocolError",
        "BadValue",
        "ChangeRefused",
        "ConfigError",
        "ListenError",
        "LogError",
        "LogFailure",
    }
)

# Functions that put a text into another one: its own reason is what users look for.
FILLED_IN = {"set_failed": ["name", "why"]}

BLANK = "…"
Function = ast.FunctionDef | ast.AsyncFunctionDef


class Source:
    """The parsed modules, and which classes and functions take a text to an error."""

    def __init__(self) -> None:
        paths = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
        self.modules = [ast.parse(path.read_text("utf-8")) for path in paths]
        self.constants = {name: text for module in self.modules for name, text in module_constants(module)}
        self.errors = set(ERROR_CLASSES)
        # By name of a function, or of a class with fields: the parameters that become texts.
        self.carriers: dict[str, set[str]] = {name: {names[-1]} for name, names in FILLED_IN.items()}
        self.parameters: dict[str, list[str]] = dict(FILLED_IN)
        self._inside: dict[ast.AST, list[ast.Call | ast.ClassDef]] = {}
        self._owners = [
            node for module in self.modules for node in ast.walk(module) if isinstance(node, Function | ast.ClassDef)
        ]
        self._find_error_classes()
        self._find_carriers()

    def _find_error_classes(self) -> None:
        classes = [node for module in self.modules for node in ast.walk(module) if isinstance(node, ast.ClassDef)]
        for _ in classes:
            found = {each.name for each in classes if {dotted(base) for base in each.bases} & self.errors}
            if found <= self.errors:
                return
            self.errors |= found

    def _find_carriers(self) -> None:
        size = -1
        while size != sum(map(len, self.carriers.values())):
            size = sum(map(len, self.carriers.values()))
            for owner in self._owners:
                if isinstance(owner, ast.ClassDef):
                    names = [each.target.id for each in owner.body if is_field(each)]  # type: ignore[attr-defined]
                    self._note_carrier(owner.name, names, set(names), owner, prefix="self.")
                    continue
                names = [each.arg for each in (*owner.args.posonlyargs, *owner.args.args)]
                names = [name for name in names if name not in ("self", "cls")]
                allowed = {*names, *(each.arg for each in owner.args.kwonlyargs)}
                self._note_carrier(owner.name, names, allowed, owner, prefix="")

    def _note_carrier(self, name: str, names: list[str], allowed: set[str], owner: ast.AST, *, prefix: str) -> None:
        for call, _ in self._error_calls(owner):
            for argument in self._text_arguments(call):
                shown = dotted(argument)
                parameter = shown.removeprefix(prefix)
                if shown.startswith(prefix) and parameter in allowed:
                    self.carriers.setdefault(name, set()).add(parameter)
                    self.parameters[name] = names

    def _error_calls(self, owner: ast.AST) -> Iterator[tuple[ast.Call, str]]:
        """Calls of error classes and of carriers below a node, with the name called."""
        if owner not in self._inside:
            self._inside[owner] = [node for node in ast.walk(owner) if isinstance(node, ast.Call | ast.ClassDef)]
        for node in self._inside[owner]:
            if isinstance(node, ast.ClassDef) and node.name in self.errors:
                for call in ast.walk(node):
                    if isinstance(call, ast.Call) and called_name(call) in ("__init__", "cls"):
                        yield call, "error"
            elif isinstance(node, ast.Call):
                name = called_name(node)
                if name in self.errors:
                    yield node, "error"
                elif name in self.carriers:
                    yield node, name

    def _text_arguments(self, call: ast.Call) -> list[ast.expr]:
        name = called_name(call)
        named = {each.arg: each.value for each in call.keywords}
        if name == "ConfigLineError":
            return call.args[2:]  # what is before the reason tells the place
        if name not in self.carriers or name in self.errors:
            return [*call.args, *named.values()]
        positional = dict(zip(self.parameters[name], call.args, strict=False))
        return [value for key, value in {**positional, **named}.items() if key in self.carriers[name]]

    def _defaults(self, module: ast.Module) -> Iterator[str]:
        """Texts that an error class has where it is given none."""
        for owner in ast.walk(module):
            if isinstance(owner, ast.ClassDef) and owner.name in self.errors:
                for method in owner.body:
                    if isinstance(method, Function) and method.name == "__init__":
                        for default in method.args.defaults:
                            yield from literals(default, self.constants)

    def texts(self) -> set[str]:
        """All of them."""
        found: set[str] = set()
        for module in self.modules:
            functions = [node for node in ast.walk(module) if isinstance(node, Function)]
            found.update(text for text in self._defaults(module))
            found.update(
                text[5:-2] for _, text in module_constants(module) if text[:5] == "-ERR " and text[-2:] == "\r\n"
            )
            for owner in (module, *functions):
                names = self.constants | dict(module_constants(module))
                choices = local_texts(owner, names) if isinstance(owner, Function) else {}
                for call, _ in self._error_calls(owner):
                    for argument in self._text_arguments(call):
                        options = choices.get(dotted(argument)) or literals(argument, names)
                        found.update(text for text in options if text.strip(f"{BLANK} :,"))
        return found


def called_name(call: ast.Call) -> str:
    """The last word of what is called."""
    return dotted(call.func).rpartition(".")[2]


def dotted(node: ast.AST) -> str:
    """`name` or `self.name`; of anything else that has an attribute, the attribute alone."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return ""


def is_field(node: ast.stmt) -> bool:
    """Whether a statement of a class declares a field."""
    return isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)


def module_constants(module: ast.Module) -> Iterator[tuple[str, str]]:
    """(name, text) of the constants of a module."""
    for node in module.body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        value = getattr(node, "value", None)
        if isinstance(target, ast.Name) and value is not None:
            for text in literals(value, {}):
                yield target.id, text


def local_texts(function: Function, names: dict[str, str]) -> dict[str, list[str]]:
    """The texts that local variables may hold."""
    found: dict[str, list[str]] = {}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found.setdefault(node.targets[0].id, []).extend(literals(node.value, names))
    return found


def literals(node: ast.AST, names: dict[str, str]) -> list[str]:
    """The texts that an expression may be; none if it is no text."""
    if isinstance(node, ast.Constant) and isinstance(node.value, (bytes, str)):
        text = node.value.decode("utf-8", "replace") if isinstance(node.value, bytes) else node.value
        for mark in ("%b", "%d", "%s", "%r", "%c"):
            text = text.replace(mark, BLANK)
        return [text]
    if isinstance(node, ast.Name):
        return [names[node.id]] if node.id in names else []
    if isinstance(node, ast.IfExp):
        return literals(node.body, names) + literals(node.orelse, names)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
        return literals(node.left, names)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = literals(node.left, names), literals(node.right, names)
        return [a + b for a in left or [BLANK] for b in right or [BLANK]] if left or right else []
    if isinstance(node, ast.JoinedStr):
        return ["".join((literals(part, names) or [BLANK])[0] for part in node.values)]
    if isinstance(node, ast.FormattedValue):
        return literals(node.value, names)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "encode":
        return literals(node.func.value, names)
    return []
