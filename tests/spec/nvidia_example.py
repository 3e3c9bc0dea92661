"""The small inventory with NVIDIA's whole software added."""

import ast
from typing import Any, cast

from tests.spec.example import edited

KEY = """-----BEGIN PGP PUBLIC KEY BLOCK-----

bm8ga2V5LCBvbmx5IHRoZSBmb3JtIG9mIG9uZQ==
-----END PGP PUBLIC KEY BLOCK-----
"""

SOFTWARE = """\
        "software": {
            "repositories": [
                {
                    "name": "nvidia",
                    "uri": "https://mirror.example.net/cuda/debian13/x86_64",
                    "suite": "/",
                    "key": _KEY,
                },
            ],
            "versions": {"slurmd": "24.11.5-4"},
            "nvidia": {
                "packaging": "nvidia",
                "driver": "580.95.05",
                "cuda": ["12.8", "13.0"],
                "fabric_manager": "580.95.05",
                "nscq": "580.95.05",
                "dcgm": "4.4.1",
                "dcgm_exporter": "4.5.2",
                "container_toolkit": "1.18.0",
                "nccl": "2.27.7",
                "gdrcopy": "2.5.1",
            },
            "containers": {"engines": ["containerd"]},
        },
"""

SOURCE = edited(
    ("_cluster = plan_or_exit(\n", f"_KEY = {KEY!r}\n\n_cluster = plan_or_exit(\n"),
    ('        "software": {"versions": {"slurmd": "24.11.5-4"}},\n', SOFTWARE),
    ('"model": "h200",\n', '"model": "h200",\n                    "nvswitch": True,\n'),
)


def changed(*changes: tuple[str, str]) -> str:
    """SOURCE with each first text replaced by the second one; each must stand there once."""
    text = SOURCE
    for old, new in changes:
        assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times in the example"
        text = text.replace(old, new)
    return text


def description() -> dict[str, Any]:
    """The description of SOURCE, as a new dictionary."""
    calls = (node for node in ast.walk(ast.parse(SOURCE)) if isinstance(node, ast.Call))
    (call,) = (c for c in calls if isinstance(c.func, ast.Name) and c.func.id == "plan_or_exit")
    text = ast.unparse(call.args[0]).replace("_KEY", repr(KEY))
    return cast(dict[str, Any], ast.literal_eval(text))
