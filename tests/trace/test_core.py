from pathlib import Path

from workbench.trace.core import Device, TraceMeta


def test_a_device_that_is_not_described_is_one_of_those_that_are_all_alike():
    def meta(*names, kind="rocm"):
        devices = tuple(Device(n, name, {"id": n, "numSms": 304}) for n, name in enumerate(names))
        return TraceMeta(Path("x"), "made", "0" * 64, 0, devices=devices, device_kind=kind)

    one, two, mixed = meta("MI300X"), meta("MI300X", "MI300X"), meta("MI300X", "MI210")
    assert two.described(1) == two.devices[1]
    assert one.described(2) == one.devices[0]  # agent 2 of two processors and one GPU
    assert two.described(9) == two.devices[0]
    assert mixed.described(1) == mixed.devices[1]
    assert mixed.described(2) is None
    assert meta().described(0) is None
    assert meta("H100", kind="cuda").described(1) is None
