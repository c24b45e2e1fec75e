"""The filter of system calls, run by a small interpreter of its instructions."""

from __future__ import annotations

import struct
from typing import Final

import pytest

from holdfast.kernel.errors import ConfigError
from holdfast.tools.sandbox.seccomp import (
    ALWAYS,
    ARCHITECTURES,
    CLONE,
    CLONE3,
    IOCTL,
    SOCKET,
    SOCKETPAIR,
    UTIMENSAT,
    WITHOUT_NAMESPACES,
    BpfInstruction,
    SandboxProfile,
    encode,
    program,
)

ALLOWED: Final = 0x7FFF0000
EPERM: Final = 0x00050001
ENOSYS: Final = 0x00050026
KILLED: Final = 0x80000000

READ: Final = {"x86_64": 0, "aarch64": 63}


def result(code: list[BpfInstruction], audit: int, number: int, *arguments: int) -> int:
    """What the kernel does with a call: the value that the filter returns."""
    values = [*arguments, *[0] * (6 - len(arguments))]
    data = struct.pack("<iIQ6Q", number, audit, 0, *values)
    accumulator = at = 0
    while True:
        step = code[at]
        at += 1
        match step.code:
            case 0x20:
                accumulator = int.from_bytes(data[step.value : step.value + 4], "little")
            case 0x54:
                accumulator &= step.value
            case 0x15:
                at += step.true if accumulator == step.value else step.false
            case 0x35:
                at += step.true if accumulator >= step.value else step.false
            case 0x45:
                at += step.true if accumulator & step.value else step.false
            case 0x06:
                return step.value
            case other:
                raise AssertionError(f"unknown instruction {other:#x}")


class Filter:
    def __init__(self, profile: SandboxProfile, machine: str) -> None:
        self._code = program(profile, machine)
        self._audit, self.column, _ = ARCHITECTURES[machine]

    def __call__(self, numbers: tuple[int | None, int | None], *arguments: int) -> int:
        number = numbers[self.column]
        assert number is not None
        return result(self._code, self._audit, number, *arguments)


@pytest.fixture(params=sorted(ARCHITECTURES))
def machine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["bubblewrap", "landlock"])
def filter_(request: pytest.FixtureRequest, machine: str) -> Filter:
    return Filter(request.param, machine)


def test_every_call_of_the_list_is_denied(filter_: Filter) -> None:
    for name, numbers in ALWAYS.items():
        if numbers[filter_.column] is not None:
            assert filter_(numbers) == EPERM, name


def test_ordinary_calls_are_allowed(machine: str) -> None:
    for profile in ("bubblewrap", "landlock"):
        code = program(profile, machine)
        assert result(code, ARCHITECTURES[machine].audit, READ[machine]) == ALLOWED


def test_a_call_of_another_processor_ends_the_process(machine: str) -> None:
    code = program("bubblewrap", machine)
    assert result(code, 0x40000003, READ[machine]) == KILLED


def test_the_second_numbers_of_calls_end_the_process() -> None:
    code = program("bubblewrap", "x86_64")
    audit = ARCHITECTURES["x86_64"].audit
    assert result(code, audit, 0x40000000 | 101) == KILLED


@pytest.mark.parametrize(
    "flag", [0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000]
)
def test_a_clone_into_a_new_namespace_is_denied(filter_: Filter, flag: int) -> None:
    assert filter_(CLONE, flag | 17) == EPERM


def test_a_fork_and_a_thread_are_allowed(filter_: Filter) -> None:
    assert filter_(CLONE, 17) == ALLOWED
    assert filter_(CLONE, 0x3D0F00) == ALLOWED
    assert filter_(CLONE3) == ENOSYS


def test_typing_into_a_terminal_is_denied(filter_: Filter) -> None:
    assert filter_(IOCTL, 0, 0x5412) == EPERM
    assert filter_(IOCTL, 0, 0x541C) == EPERM
    # The kernel reads 32 bits of the request, whatever is above them.
    assert filter_(IOCTL, 0, 0x1_0000_5412) == EPERM
    assert filter_(IOCTL, 0, 0x5401) == ALLOWED


@pytest.mark.parametrize("family", range(46))
def test_only_sockets_of_the_network_namespace_can_be_made(machine: str, family: int) -> None:
    expected = ALLOWED if family in (1, 2, 10, 16) else EPERM
    assert Filter("bubblewrap", machine)(SOCKET, family, 1) == expected


def test_without_namespaces_no_socket_can_reach_anything(machine: str) -> None:
    filter_ = Filter("landlock", machine)
    for family in range(46):
        assert filter_(SOCKET, family, 1) == EPERM
    assert filter_(SOCKETPAIR, 1, 2) == EPERM
    assert filter_(SOCKETPAIR, 1, 2 | 0o2000000) == EPERM
    assert filter_(SOCKETPAIR, 1, 1 | 0o2000000) == ALLOWED


def test_without_namespaces_no_file_is_changed_by_its_name(machine: str) -> None:
    filter_ = Filter("landlock", machine)
    for name, numbers in WITHOUT_NAMESPACES.items():
        if numbers[filter_.column] is not None:
            assert filter_(numbers) == EPERM, name
    path = 0x7FFE_0000_0000  # whose lower half is 0
    assert filter_(UTIMENSAT, 3, path) == EPERM
    assert filter_(UTIMENSAT, 3, 0x1234) == EPERM
    assert filter_(UTIMENSAT, 3, 0) == ALLOWED


def test_after_a_call_with_arguments_the_next_ones_are_still_examined(machine: str) -> None:
    for profile in ("bubblewrap", "landlock"):
        filter_ = Filter(profile, machine)
        assert filter_(CLONE, 17) == ALLOWED
        assert filter_(SOCKETPAIR, 1, 1) == ALLOWED


def test_the_filter_is_short_enough_for_the_kernel_and_has_no_jump_out_of_it(machine: str) -> None:
    for profile in ("bubblewrap", "landlock"):
        code = program(profile, machine)
        assert len(code) < 4096
        assert len(encode(code)) == 8 * len(code)
        for at, step in enumerate(code):
            assert max(step.true, step.false) < min(256, len(code) - at - 1) or step.code == 0x06


def test_an_unknown_processor_is_refused() -> None:
    with pytest.raises(ConfigError, match="no system call filter for riscv64"):
        program("bubblewrap", "riscv64")
