"""Finds the line of an inventory file that holds a field of the description.

Inventories are Python, so a description carries no line marks of its own; its literal does.
"""

from __future__ import annotations

import ast


def line_of(source: str, path: tuple[str | int, ...]) -> int | None:
    """Return the line of the deepest part of ``path`` written as a literal in ``source``.

    None when no call or assignment in the source holds a dictionary with the first key.
    """
    if not path:
        return None
    candidates = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Dict) and _entry(node, path[0]) is not None
    ]
    # The description is the outermost dictionary with that key, so the first one met.
    return _descend(candidates[0], path) if candidates else None


def _entry(node: ast.AST, key: str | int) -> ast.AST | None:
    if isinstance(node, ast.Dict):
        for name, value in zip(node.keys, node.values, strict=True):
            if isinstance(name, ast.Constant) and name.value == key:
                return value
    if isinstance(node, ast.List | ast.Tuple) and isinstance(key, int) and key < len(node.elts):
        return node.elts[key]
    return None


def _descend(node: ast.AST, path: tuple[str | int, ...]) -> int | None:
    for key in path:
        inner = _entry(node, key)
        if inner is None:
            break
        node = inner
    return getattr(node, "lineno", None)
