"""Helm charts in the lab's registry, packed from the projects' Go modules.

The form is that of Helm's documentation, "Use OCI-based registries": a chart is an artifact with
its metadata as the configuration, and one layer, the packed chart.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import tarfile
from pathlib import Path

from lab import places
from lab.errors import LabError
from lab.kubernetes import families, oci
from lab.kubernetes.oci import Artifact
from lab.programs import build

CONFIG = "application/vnd.cncf.helm.config.v1+json"
CONTENT = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
FOLDER = "charts"
DEVICE_PLUGIN = "nvidia-device-plugin"


def device_plugin() -> Artifact:
    """Return the chart of NVIDIA's device plugin, with node-feature-discovery as a subchart.

    Raises:
        LabError: the build failed, or the chart has no version.
    """
    chart = build.ensure(families.DEVICE_PLUGIN).source(families.CHART)
    described = (chart / "Chart.yaml").read_text()
    # Its fields that are plain text, one in each line.
    fields = dict(re.findall(r"^([a-zA-Z]+): \"?([^\n\"]+)\"?$", described, re.M))
    if "version" not in fields:
        raise LabError(f"{chart / 'Chart.yaml'}: has no version")
    folder = places.cache_folder() / "kubernetes" / "charts"
    folder.mkdir(parents=True, exist_ok=True)
    config = oci.write_blob(folder, CONFIG, json.dumps(fields, indent=1).encode())
    content = oci.write_blob(folder, CONTENT, _packed(chart, fields["name"]))
    return oci.artifact(f"{FOLDER}/{fields['name']}", fields["version"], config, (content,))


def _packed(chart: Path, name: str) -> bytes:
    """Return the packed chart: its files below a folder with its name."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w", format=tarfile.PAX_FORMAT) as out:
        for path in sorted(chart.rglob("*")):
            if path.is_file():
                entry = tarfile.TarInfo(f"{name}/{path.relative_to(chart)}")
                entry.mode, entry.size = 0o644, path.stat().st_size
                out.addfile(entry, io.BytesIO(path.read_bytes()))
    return gzip.compress(archive.getvalue(), mtime=0)
