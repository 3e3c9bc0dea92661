"""Files of NVIDIA's stack: driver, CUDA, IMEX, DCGM, the settings of the boards."""

from __future__ import annotations

from functools import partial

from lockstep.files._entry import Entry, drop_in, whole_unit
from lockstep.plan import NodePlan
from lockstep.plan.nvidia import DCGM_EXPORTER, MODPROBE
from lockstep.plan.nvidia import GPU_SETTINGS as GPU_SETTINGS_UNIT

GPU_SETTINGS = "/usr/local/sbin/lockstep-gpu-settings"


def _own_modules(plan: NodePlan) -> bool:
    return plan.nvidia is not None and plan.nvidia.modules is not None


def _has_engine(plan: NodePlan, engine: str) -> bool:
    return engine in plan.spec.software.containers.engines


def _is_job_parent(plan: NodePlan, unit: str) -> bool:
    return unit in plan.job_parents


ENTRIES = (
    Entry(
        "nvidia_driver",
        MODPROBE,
        "nvidia_driver/modprobe.conf.j2",
        # modprobe(8) reads a folder: what it says of ours is what it cannot read.
        validate=(
            'd="$(mktemp -d)"; trap \'rm -r "$d"\' EXIT; cp {new} "$d/50-lockstep-nvidia.conf"; '
            'said="$(modprobe -C "$d" --showconfig 2>&1 >/dev/null)"; [ -z "$said" ] || '
            '{{ echo "$said" >&2; exit 1; }}'
        ),
        wanted=_own_modules,
    ),
    Entry(
        "nvidia_driver",
        "/etc/modules-load.d/50-lockstep-nvidia.conf",
        "nvidia_driver/modules.conf.j2",
        wanted=_own_modules,
    ),
    Entry(
        "cuda",
        "/etc/profile.d/50-lockstep-cuda.sh",
        "cuda/profile.sh.j2",
        validate="sh -n {new}",
        # Debian's packages put their programs into /usr/bin.
        wanted=lambda plan: plan.nvidia is not None and plan.nvidia.spec.packaging == "nvidia",
    ),
    Entry(
        "nvidia_imex",
        "/etc/nvidia-imex/nodes_config.cfg",
        "nvidia_imex/nodes_config.cfg.j2",
        own=True,
    ),
    Entry(
        "dcgm_exporter",
        f"/etc/systemd/system/{DCGM_EXPORTER}.d/50-lockstep.conf",
        "dcgm_exporter/exporter.conf.j2",
        own=True,
        validate=drop_in(DCGM_EXPORTER),
    ),
    Entry(
        "gpu_settings",
        GPU_SETTINGS,
        "gpu_settings/gpu-settings.sh.j2",
        mode="755",
        validate="sh -n {new}",
    ),
    Entry(
        "gpu_settings",
        f"/etc/systemd/system/{GPU_SETTINGS_UNIT}",
        "gpu_settings/gpu-settings.service.j2",
        validate=whole_unit(GPU_SETTINGS_UNIT),
    ),
    Entry(
        "container_runtime",
        "/etc/containers/containers.conf.d/50-lockstep.conf",
        "container_runtime/containers.conf.j2",
        validate="CONTAINERS_CONF_OVERRIDE={new} podman info >/dev/null",
        wanted=partial(_has_engine, engine="podman"),
    ),
    Entry(
        "container_runtime",
        "/etc/containerd/lockstep-cri.toml",
        "container_runtime/containerd_cri.toml.j2",
        validate="containerd --config {new} config dump >/dev/null",
        wanted=partial(_has_engine, engine="containerd"),
    ),
    # After what it imports: a file that is not there is an error.
    Entry(
        "container_runtime",
        "/etc/containerd/lockstep.toml",
        "container_runtime/containerd.toml.j2",
        validate="containerd --config {new} config dump >/dev/null",
        wanted=partial(_has_engine, engine="containerd"),
    ),
    Entry(
        "container_runtime",
        "/etc/systemd/system/containerd.service.d/50-lockstep.conf",
        "container_runtime/containerd_unit.conf.j2",
        validate=drop_in("containerd.service"),
        wanted=partial(_has_engine, engine="containerd"),
    ),
    *(
        Entry(
            "container_runtime",
            f"/etc/systemd/system/{unit}.d/50-lockstep-jobs.conf",
            "container_runtime/jobs.conf.j2",
            validate=drop_in(unit, "50-lockstep-jobs.conf"),
            wanted=partial(_is_job_parent, unit=unit),
        )
        for unit in ("containerd.service", "docker.service")
    ),
    Entry(
        "container_runtime",
        "/etc/docker/daemon.json",
        "container_runtime/daemon.json.j2",
        validate="dockerd --validate --config-file {new} >/dev/null",
        wanted=partial(_has_engine, engine="docker"),
    ),
)
