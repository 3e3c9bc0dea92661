"""The settings of cuFile, the library of GPUDirect Storage, in cufile.json.

Names: those that libcufile 1.9.1 asks its file for (``strings`` of Debian's package libcufile0
1.9.1.3~12.4.1), without ``mount_table``; ``use_pci_p2pdma``, ``enable_static_routing`` and
``gds_async_support``: the file of CUDA 13 in NVIDIA's GPUDirect Storage installation guide. Kinds
of values: that file and NVIDIA's configuration guide, "GPUDirect Storage Parameters". Looked up on
2026-11-28. Not verified: which release of the library has which name; one that it does not know
has no effect.
"""

from __future__ import annotations

_FLAG, _NUMBER, _TEXT = "true or false", "a whole number", "a text"
_NUMBERS, _TEXTS = "whole numbers", "texts"

SETTINGS: dict[str, str] = {
    **{f"denylist.{name}": _TEXTS for name in ("devices", "drivers", "filesystems", "mounts")},
    **{
        f"execution.{name}": _NUMBER
        for name in (
            "max_io_queue_depth",
            "max_io_threads",
            "max_request_parallelism",
            "min_io_threshold_size_kb",
        )
    },
    "execution.parallel_io": _FLAG,
    "fs.generic.posix_unaligned_writes": _FLAG,
    "fs.gpfs.gds_async_support": _FLAG,
    "fs.gpfs.gds_write_support": _FLAG,
    "fs.nfs.use_pci_p2pdma": _FLAG,
    "fs.weka.rdma_write_support": _FLAG,
    **{f"fs.{name}.posix_gds_min_kb": _NUMBER for name in ("beegfs", "lustre")},
    **{
        f"fs.{name}.rdma_dev_addr_list": _TEXTS
        for name in ("beegfs", "gpfs", "lustre", "nfs", "weka")
    },
    "logging.dir": _TEXT,
    "logging.level": _TEXT,
    "miscellaneous.api_check_aggressive": _FLAG,
    "miscellaneous.enable_static_routing": _FLAG,
    "profile.cufile_stats": _NUMBER,
    "profile.nvtx": _FLAG,
    **{
        f"properties.{name}": _FLAG
        for name in (
            "allow_compat_mode",
            "allow_system_memory",
            "force_compat_mode",
            "force_odirect_mode",
            "gds_rdma_write_support",
            "prefer_iouring",
            "rdma_dynamic_routing",
            "use_pci_p2pdma",
            "use_poll_mode",
        )
    },
    **{
        f"properties.{name}": _NUMBER
        for name in (
            "io_batchsize",
            "max_batch_io_timeout_msecs",
            "max_device_cache_size_kb",
            "max_device_pinned_mem_size_kb",
            "max_direct_io_size_kb",
            "per_buffer_cache_size_kb",
            "poll_mode_max_size_kb",
        )
    },
    "properties.io_priority": _TEXT,
    "properties.posix_pool_slab_count": _NUMBERS,
    "properties.posix_pool_slab_size_kb": _NUMBERS,
    "properties.rdma_access_mask": _TEXT,
    "properties.rdma_dc_key": _TEXT,
    "properties.rdma_dev_addr_list": _TEXTS,
    "properties.rdma_dynamic_routing_order": _TEXTS,
    "properties.rdma_load_balancing_policy": _TEXT,
}
"""Name, as gdscheck prints it -> the kind of its value."""


def is_of(kind: str, value: object) -> bool:
    """Return whether a value is of a kind of ``SETTINGS``."""
    match value:
        case bool():
            return kind == _FLAG
        case int():
            return kind == _NUMBER
        case str():
            return kind == _TEXT
        case tuple():
            one = {_NUMBERS: _NUMBER, _TEXTS: _TEXT}.get(kind, "")
            return all(is_of(one, item) for item in value)
    return False
