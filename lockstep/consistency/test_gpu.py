"""The GPUs and their links: each as declared, and like those of its peers."""

from lockstep.consistency.plugin import RuleResult


def test_gpu_devices(rule_result: RuleResult) -> None:
    """Number, model, order and memory size; GPUs that are lost."""
    rule_result.must_hold()


def test_gpu_firmware(rule_result: RuleResult) -> None:
    """Firmware: VBIOS, infoROM, GSP."""
    rule_result.must_hold()


def test_gpu_modes(rule_result: RuleResult) -> None:
    """Modes: ECC, MIG, persistence, compute mode."""
    rule_result.must_hold()


def test_gpu_clocks(rule_result: RuleResult) -> None:
    """Clocks of cores and memory."""
    rule_result.must_hold()


def test_gpu_power(rule_result: RuleResult) -> None:
    """Power limits, temperatures, slowdowns."""
    rule_result.must_hold()


def test_gpu_pcie(rule_result: RuleResult) -> None:
    """PCIe links: lanes, generation, errors."""
    rule_result.must_hold()


def test_gpu_errors(rule_result: RuleResult) -> None:
    """Memory errors, remapped rows, Xid errors."""
    rule_result.must_hold()


def test_gpu_fabric(rule_result: RuleResult) -> None:
    """The NVLink fabric of a baseboard or a rack."""
    rule_result.must_hold()


def test_nvlink(rule_result: RuleResult) -> None:
    """NVLinks: up, at full speed, without errors."""
    rule_result.must_hold()
