"""Finds the line of an inventory file that defines a field of the description.

An inventory is Python code: a description has no line numbers, but its literal in the code does.
Variables in the same file (``"hardware": _HARDWARE``) and ``**_shared`` are followed.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Container, Mapping
from functools import lru_cache


def line_of(source: str, path: tuple[str | int, ...], fields: Container[object]) -> int | None:
    """Return the line of the deepest part of ``path`` that is a literal in ``source``.

    Args:
        source: the inventory file.
        path: keys from the top of the description.
        fields: the top-level keys of a description; the dictionary with the most of these is used.

    Returns:
        The line, or None when no dictionary in the source has any of the fields.
    """
    assigned, dicts = _parsed(source)
    top = max(dicts, key=lambda node: _known(node, fields), default=None)
    if top is None or not _known(top, fields):
        return None
    node: ast.expr = top
    for key in path:
        inner = _entry(_followed(node, assigned), key, assigned)
        if inner is None:
            break
        node = inner
    return node.lineno


@lru_cache(maxsize=1)
def _parsed(source: str) -> tuple[dict[str, ast.expr], tuple[ast.Dict, ...]]:
    """Return the variables and the dictionaries of an inventory.

    They are kept, because a description can have thousands of problems.
    """
    tree = ast.parse(source)
    dicts = tuple(node for node in ast.walk(tree) if isinstance(node, ast.Dict))
    return _assigned(tree), dicts


def _known(node: ast.Dict, fields: Container[object]) -> int:
    return sum(isinstance(key, ast.Constant) and key.value in fields for key in node.keys)


def _assigned(tree: ast.Module) -> dict[str, ast.expr]:
    """Return the value of each variable; variables assigned more than once are left out."""
    values = [
        (target.id, statement.value)
        for statement in tree.body
        if isinstance(statement, ast.Assign)
        for target in statement.targets
        if isinstance(target, ast.Name)
    ]
    times = Counter(name for name, _ in values)
    return {name: value for name, value in values if times[name] == 1}


def _followed(node: ast.expr, assigned: Mapping[str, ast.expr]) -> ast.expr:
    return assigned.get(node.id, node) if isinstance(node, ast.Name) else node


def _entry(node: ast.expr, key: str | int, assigned: Mapping[str, ast.expr]) -> ast.expr | None:
    if isinstance(node, ast.Dict):
        # In reverse order, because Python uses the last of several duplicate keys.
        for name, value in zip(reversed(node.keys), reversed(node.values), strict=True):
            if isinstance(name, ast.Constant) and name.value == key:
                return value
            if name is None and (spread := _followed(value, assigned)) is not value:
                inner = _entry(spread, key, assigned)
                if inner is not None:
                    return inner
    if isinstance(node, ast.List | ast.Tuple) and isinstance(key, int):
        # The index is unknown after a starred element.
        plain = node.elts[: key + 1]
        if len(plain) == key + 1 and not any(isinstance(e, ast.Starred) for e in plain):
            return plain[key]
    return None
