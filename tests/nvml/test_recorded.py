"""States of the simulated NVML from recorded answers of ``nvidia-smi -q -x``.

The documents are written by hand in the format of several branches; test_recorded_programs.py reads
what real programs print.
"""

from __future__ import annotations

import pytest

from lab.nvml.recorded import RecordingError, from_xml

UUID = "GPU-12345678-9abc-def0-1234-56789abcdef0"


def element(path: str, text: str) -> str:
    """Return an element inside the elements of its path, one per line."""
    first, _, rest = path.partition("/")
    return (
        f"<{first}>\n{element(rest, text)}</{first}>\n" if rest else f"<{first}>{text}</{first}>\n"
    )


def document(*values: tuple[str, str], driver: str = "550.163.01") -> str:
    """Return an answer about one GPU; line 5 is ``<gpu>``, line 6 the UUID."""
    body = "".join(element(path, text) for path, text in values)
    return (
        '<?xml version="1.0" ?>\n'
        '<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">\n'
        "<nvidia_smi_log>\n"
        f"<driver_version>{driver}</driver_version><cuda_version>12.4</cuda_version>\n"
        f'<gpu id="00000000:1B:00.0">\n<uuid>{UUID}</uuid>\n{body}</gpu>\n</nvidia_smi_log>\n'
    )


def values_of(*values: tuple[str, str], driver: str = "550.163.01") -> dict[str, str]:
    return from_xml(document(*values, driver=driver)).gpus[0]


def test_the_node() -> None:
    recording = from_xml(document())
    assert recording.node == {
        "driver": "ok",
        "driver_version": "550.163.01",
        "cuda_version": "12.4",
    }
    assert recording.gpus[0]["uuid"] == UUID


@pytest.mark.parametrize(
    ("path", "text", "key", "value"),
    [
        ("fb_memory_usage/total", "143771 MiB", "memory.total", "143771"),
        ("pci/pci_bus", "1B", "pci.bus", "0x1B"),
        ("pci/pci_device_id", "233510DE", "pci.device_id", "0x233510DE"),
        (
            "pci/pci_gpu_link_info/link_widths/max_link_width",
            "16x",
            "pcie.link.width.max",
            "16",
        ),
        ("pci/tx_util", "371 KB/s", "pcie.tx_util", "371"),
        ("fan_speed", "0 %", "fan.speed", "0"),
        ("edpp_multiplier", "100.00%", "edpp_multiplier", "100.00"),
        ("temperature/gpu_temp_max_tlimit_threshold", "-8 C", "temperature.shutdown_tlimit", "-8"),
        ("temperature/gpu_temp_max_threshold", "92 C", "temperature.shutdown", "92"),
        (
            "remapped_rows/row_remapper_histogram/row_remapper_histogram_max",
            "640 bank(s)",
            "remapped_rows.histogram.max",
            "640",
        ),
        ("gpu_power_readings/current_power_limit", "700.00 W", "enforced.power.limit", "700.00"),
        ("power_readings/enforced_power_limit", "70.00 W", "enforced.power.limit", "70.00"),
        ("gpu_module_id", "4", "platform.module_id", "4"),
        ("platformInfo/module_id", "4", "platform.module_id", "4"),
        ("gpu_reset_status/reset_required", "No", "reset_status.reset_required", "No"),
        ("retired_pages/pending_blacklist", "Yes", "retired_pages.pending", "Yes"),
        ("fabric/state", "Completed", "fabric.state", "Completed"),
        (
            "clocks_event_reasons_counters/clocks_event_reasons_counters_hw_therm_slowdown",
            "12 us",
            "clocks_event_reasons_counters.hw_thermal_slowdown",
            "12",
        ),
    ],
)
def test_a_value(path: str, text: str, key: str, value: str) -> None:
    assert values_of((path, text))[key] == value


@pytest.mark.parametrize("text", ["N/A", "[N/A]", ""])
def test_what_a_gpu_does_not_have_is_absent(text: str) -> None:
    assert "temperature.memory" not in values_of(("temperature/memory_temp", text))


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("GPU is lost", "error:GPU_IS_LOST"),
        ("GPU requires reset", "error:RESET_REQUIRED"),
        ("Unknown Error", "error:UNKNOWN"),
        ("Insufficient Permissions", "error:NO_PERMISSION"),
        ("Requested functionality has been deprecated", "error:DEPRECATED"),
    ],
)
def test_an_error_of_nvml_stays_one(text: str, error: str) -> None:
    values = values_of(("clocks/mem_clock", text), ("persistence_mode", text))
    assert values["clocks.current.memory"] == error
    assert values["persistence_mode"] == error


@pytest.mark.parametrize("spelling", ["throttle", "event"])
def test_event_reasons_of_both_spellings(spelling: str) -> None:
    group = f"clocks_{spelling}_reasons/clocks_{spelling}_reason_"
    values = values_of(
        (f"{group}gpu_idle", "Active"),
        (f"{group}hw_thermal_slowdown", "Active"),
        (f"{group}sw_power_cap", "Not Active"),
        (f"{group}display_clocks_setting", "Active"),
    )
    assert values["clocks_event_reasons.active"] == "0x0000000000000141"
    assert values["clocks_event_reasons.supported"] == "0x0000000000000145"
    assert values["clocks_event_reasons.hw_thermal_slowdown"] == "Active"
    assert values["clocks_event_reasons.sw_power_cap"] == "Not Active"


@pytest.mark.parametrize(
    ("reason", "mask"),
    [
        ("gpu_idle", 0x1),
        ("applications_clocks_setting", 0x2),
        ("sw_power_cap", 0x4),
        ("hw_slowdown", 0x8),
        ("sync_boost", 0x10),
        ("sw_thermal_slowdown", 0x20),
        ("hw_thermal_slowdown", 0x40),
        ("hw_power_brake_slowdown", 0x80),
        ("display_clocks_setting", 0x100),
    ],
)
def test_bits_of_the_reasons(reason: str, mask: int) -> None:
    """nvml.h, nvmlClocksEventReason..."""
    values = values_of((f"clocks_event_reasons/clocks_event_reason_{reason}", "Active"))
    assert values["clocks_event_reasons.active"] == f"0x{mask:016X}"


def test_error_counters_of_418() -> None:
    """From a Volta GPU of the time when bits were counted instead of SRAM and DRAM."""
    values = values_of(
        ("ecc_errors/volatile/single_bit/l2_cache", "3"),
        ("ecc_errors/volatile/single_bit/texture_memory", "N/A"),
        ("ecc_errors/aggregate/double_bit/cbu", "1"),
        ("ecc_errors/aggregate/double_bit/total", "2"),
        driver="418.226.00",
    )
    assert values["ecc.errors.corrected.volatile.l2_cache"] == "3"
    assert "ecc.errors.corrected.volatile.texture_memory" not in values
    assert values["ecc.errors.uncorrected.aggregate.cbu"] == "1"
    assert values["ecc.errors.uncorrected.aggregate.total"] == "2"


def test_sums_of_error_counters() -> None:
    values = values_of(
        ("ecc_errors/volatile/sram_uncorrectable_parity", "1"),
        ("ecc_errors/volatile/sram_uncorrectable_secded", "2"),
        ("ecc_errors/volatile/dram_uncorrectable", "4"),
    )
    assert values["ecc.errors.uncorrected.volatile.sram"] == "3"
    assert values["ecc.errors.uncorrected.volatile.device_memory"] == "4"
    assert values["ecc.errors.uncorrected.volatile.total"] == "7"


def test_power_draw_of_every_branch() -> None:
    assert values_of(("power_readings/power_draw", "26.78 W"))["power.draw"] == "26.78"
    assert values_of(("gpu_power_readings/power_draw", "26.78 W"))["power.draw"] == "26.78"
    values = values_of(
        ("gpu_power_readings/average_power_draw", "N/A"),
        ("gpu_power_readings/instant_power_draw", "49.68 W"),
    )
    assert values["power.draw"] == values["power.draw.instant"] == "49.68"
    assert "power.draw.average" not in values


def test_the_part_number_of_old_drivers_is_that_of_the_board() -> None:
    """Recorded: 515 prints 900-2G183-0000-001 as gpu_part_number and has no other."""
    old = values_of(("gpu_part_number", "900-2G183-0000-001"), driver="515.105.01")
    assert old["board_part_number"] == "900-2G183-0000-001"
    assert "gpu_part_number" not in old
    new = values_of(("board_part_number", "N/A"), ("gpu_part_number", "1EB8-895-A1"))
    assert new["gpu_part_number"] == "1EB8-895-A1"
    assert "board_part_number" not in new


def clocks(memory: int, *graphics: int) -> tuple[str, str]:
    inner = element("value", f"{memory} MHz") + "".join(
        element("supported_graphics_clock", f"{clock} MHz") for clock in graphics
    )
    return "supported_clocks/supported_mem_clock", inner


def test_supported_clocks_become_ranges() -> None:
    values = values_of(clocks(2619, 1980, 1965, 1950))
    assert values["clocks.supported.memory"] == "2619"
    assert values["clocks.supported.graphics"] == "1950-1980:15"
    assert (
        values_of(clocks(3996, 142, 135, 127, 120))["clocks.supported.graphics"] == "120-142.5:7.5"
    )
    # 2062 stands for 2062.5.
    rounded = values_of(clocks(3996, *(2062, 2055, 2047, 2040)))
    assert rounded["clocks.supported.graphics"] == "2040-2062.5:7.5"
    odd = values_of(clocks(3996, 200, 150, 120))
    assert odd["clocks.supported.graphics"] == "200,150,120"


def test_graphics_clocks_of_a_lower_memory_clock() -> None:
    text = document(("supported_clocks", clocks(9001, 225, 210)[1]))
    inner = "".join(element("supported_mem_clock", clocks(m, *g)[1]) for m, g in LOWER)
    values = from_xml(text.replace(clocks(9001, 225, 210)[1], inner)).gpus[0]
    assert values["clocks.supported.memory"] == "9001,405"
    assert values["clocks.supported.graphics"] == "210-2520:15"
    assert values["clocks.supported.graphics.405"] == "210-240:15"


def test_supported_clocks_that_nvidia_smi_could_not_read() -> None:
    """Seen: nvidia-smi 550 has no room for the 260 clocks of a GB200."""
    text = document(clocks(3996, 1965)).replace("1965 MHz", "Unknown Error")
    recording = from_xml(text)
    assert "clocks.supported.memory" not in recording.gpus[0]
    assert recording.not_kept == [
        "8: supported_clocks/supported_mem_clock = "
        "value=3996 MHz, supported_graphics_clock=Unknown Error"
    ]


LOWER = [(9001, tuple(range(2520, 209, -15))), (405, (240, 225, 210))]


def test_what_nvidia_smi_does_not_print_comes_from_the_catalogue() -> None:
    recording = from_xml(
        document(
            ("product_name", "NVIDIA H100 80GB HBM3"),
            ("mig_mode/current_mig", "Disabled"),
            ("gsp_firmware_version", "550.163.01"),
            ("product_architecture", "Hopper"),
        )
    )
    values = recording.gpus[0]
    assert values["compute_cap"] == "9.0"
    assert values["nvlink.17.speed"] == "26.562"
    assert values["mig.profile.19"].startswith("name=1g.10gb ")
    assert values["gsp.firmware"] == "driver"
    assert values["architecture"] == "hopper"
    # Nothing that the recording could have told.
    assert "temperature.gpu" not in values
    assert "memory.total" not in values
    assert "compute_cap" in recording.filled[0]
    assert "architecture" not in recording.filled[0]
    assert not recording.notes


def test_the_catalogue_fills_each_slot_with_its_own_values() -> None:
    text = document(("product_name", "NVIDIA H200"))
    gpu = text[text.index("<gpu id") : text.index("</nvidia_smi_log>")]
    values = from_xml(text.replace(gpu, gpu * 9)).gpus
    affinities = [values[slot]["numa_affinity"] for slot in range(9)]
    assert affinities == ["0"] * 4 + ["1"] * 4 + ["0"]


def test_firmware_that_nvidia_smi_prints_runs() -> None:
    """Seen with GPUs that the catalogue lacks: the library told no version."""
    told = (("product_name", "NVIDIA A10G"), ("gsp_firmware_version", "550.163.01"))
    assert values_of(*told)["gsp.mode.current"] == "Enabled"


def test_a_gpu_without_mig_and_gsp_gets_neither_from_the_catalogue() -> None:
    values = values_of(
        ("product_name", "A100-SXM4-40GB"), ("mig_mode/current_mig", "N/A"), driver="450.80.02"
    )
    assert values["compute_cap"] == "8.0"
    assert not any(key.startswith(("mig.", "gsp.", "ecc.")) for key in values)


def test_a_driver_that_is_older_than_the_gpu() -> None:
    """Seen with nvidia-smi 550 and a Blackwell GPU."""
    values = values_of(("product_name", "NVIDIA B200"), ("product_architecture", "Unknown"))
    assert values["product_architecture"] == "Unknown"
    assert values["architecture"] == "blackwell"


def test_an_unknown_model_is_noted() -> None:
    recording = from_xml(document(("product_name", "NVIDIA A10G")))
    assert recording.notes == [
        "gpu 0: no simulated model named 'NVIDIA A10G'; what nvidia-smi does not print is "
        "absent: compute_cap, NVLinks, MIG profiles and so on"
    ]
    assert "compute_cap" not in recording.gpus[0]


def test_nothing_is_dropped_silently() -> None:
    recording = from_xml(
        document(
            ("flux_capacitor/charge", "88 %"),
            ("new_and_empty", "N/A"),
            ("voltage/graphics_volt", "743.750 mV"),
            ("processes/process_info/pid", "725"),
            ("mig_devices/mig_device/gpu_instance_id", "3"),
        ).replace("</gpu>", "</gpu>\n<weather>fine</weather>")
    )
    assert recording.unknown == [
        "8: flux_capacitor/charge = 88 %",
        "10: new_and_empty = N/A",
        "25: weather = fine",
    ]
    assert recording.not_kept == [
        "12: voltage/graphics_volt = 743.750 mV",
        "15: processes/process_info = pid=725",
        "20: mig_devices/mig_device = gpu_instance_id=3",
    ]


def test_an_empty_list_and_a_zero_are_not_listed() -> None:
    recording = from_xml(
        document(
            ("mig_devices", "None"),
            ("processes", ""),
            ("remapped_rows", "N/A"),
            ("fbc_stats/average_fps", "0"),
            ("multigpu_board", "No"),
        )
    )
    assert not recording.unknown
    assert not recording.not_kept


def test_a_recording_of_fewer_gpus_than_attached_is_noted() -> None:
    text = document().replace("<gpu id", "<attached_gpus>8</attached_gpus><gpu id")
    assert from_xml(text).notes[-1] == "5: attached_gpus is 8, but 1 are here"


def test_two_gpus_with_one_uuid_are_noted() -> None:
    text = document()
    gpu = text[text.index("<gpu id") : text.index("</nvidia_smi_log>")]
    recording = from_xml(text.replace(gpu, gpu + gpu))
    assert sorted(recording.gpus) == [0, 1]
    assert f"2 GPUs have the UUID {UUID}" in recording.notes


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "q.xml:1: no element found; expected the whole XML answer of nvidia-smi -q -x"),
        (
            document()[:-20],
            "q.xml:7: unclosed token; expected the whole XML answer of nvidia-smi -q -x",
        ),
        (
            "<html></html>",
            "q.xml:1: <html>; expected <nvidia_smi_log>: the answer of nvidia-smi -q -x",
        ),
        (
            "<nvidia_smi_log>\n<driver_version>1</driver_version></nvidia_smi_log>",
            "q.xml:1: no gpu; expected at least one <gpu>",
        ),
        (
            document().replace("<driver_version>550.163.01</driver_version>", ""),
            "q.xml:3: no driver_version; expected <driver_version> of the node",
        ),
        (
            document().replace(UUID, "N/A"),
            "q.xml:5: a <gpu> without uuid; expected the <uuid> of every GPU",
        ),
        (
            document(("fb_memory_usage/total", "143771 GiB")),
            "q.xml:8: fb_memory_usage/total = '143771 GiB'; "
            "expected a number and MiB, N/A or an error of NVML",
        ),
        (
            document(("minor_number", "zero")),
            "q.xml:7: minor_number = 'zero'; expected a whole number, N/A or an error of NVML",
        ),
        (
            document(clocks(2619, 1980)).replace("1980 MHz", "fast"),
            "q.xml:9: supported_clocks/supported_graphics_clock = 'fast'; "
            "expected a number and MHz, N/A or an error of NVML",
        ),
        (
            '<!DOCTYPE x [<!ENTITY a "aaaa">]>\n<x>&a;</x>',
            "q.xml:1: entity 'a'; expected no entities",
        ),
    ],
)
def test_a_malformed_recording_is_refused_with_its_place(text: str, message: str) -> None:
    with pytest.raises(RecordingError) as error:
        from_xml(text, "q.xml")
    assert str(error.value) == message
