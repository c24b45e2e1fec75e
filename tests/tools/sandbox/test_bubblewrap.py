"""The command line of bubblewrap: from a policy and what the machine has."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.tools.sandbox.bubblewrap import (
    ISOLATION,
    BoundPath,
    MaskedPath,
    SandboxView,
    SystemPath,
    arguments,
)
from holdfast.tools.sandbox.landlock import DEVICE, EXECUTE, READ_FILE, WRITE_FILE, rule
from holdfast.tools.sandbox.policy import SandboxLimits, SandboxPolicy

POLICY = SandboxPolicy(directory="/srv/work", limits=SandboxLimits(temporary=1000))
VIEW = SandboxView(
    (SystemPath("/usr"), SystemPath("/bin", "usr/bin")),
    (BoundPath("/etc/passwd", 6),),
    (
        BoundPath("/srv/work", 7, writable=True),
        BoundPath("/srv/work/.git", 8, writable=True),
        BoundPath("/srv/work/.git/hooks", 9),
    ),
    (MaskedPath("/srv/work/.env", "file"), MaskedPath("/srv/work/keys", "directory")),
)


def line(*, own_network: bool = True) -> list[str]:
    return arguments(
        POLICY, VIEW, ["sh", "-c", "x"], chdir="/srv/work/a", seccomp=5, own_network=own_network
    )


def follows(parts: Sequence[str], *expected: str) -> bool:
    joined = "\0".join(["", *parts, ""])
    return "\0".join(["", *expected, ""]) in joined


def test_everything_is_separated_and_no_capability_is_kept() -> None:
    assert tuple(line()[: len(ISOLATION)]) == ISOLATION
    for option in ("--unshare-user", "--unshare-pid", "--unshare-ipc", "--disable-userns"):
        assert option in line()
    assert follows(line(), "--cap-drop", "ALL")
    assert "--die-with-parent" in line()
    assert "--new-session" in line()


def test_the_network_is_off_unless_another_process_has_entered_one() -> None:
    assert "--unshare-net" in line()
    assert "--unshare-net" not in line(own_network=False)


def test_only_the_directory_and_its_pins_are_writable() -> None:
    parts = line()
    writable = [parts[at + 2] for at, part in enumerate(parts) if part in ("--bind", "--bind-fd")]
    assert writable == ["/srv/work", "/srv/work/.git"]
    assert follows(parts, "--ro-bind-fd", "9", "/srv/work/.git/hooks")
    assert follows(parts, "--ro-bind", "/usr", "/usr")
    assert follows(parts, "--symlink", "usr/bin", "/bin")
    assert follows(parts, "--perms", "0444", "--file", "6", "/etc/passwd")


def test_a_directory_is_pinned_before_what_it_protects_is_mounted() -> None:
    parts = line()
    assert parts.index("/srv/work") < parts.index("/srv/work/.git")
    assert parts.index("/srv/work/.git") < parts.index("/srv/work/.git/hooks")


def test_masked_paths_look_empty() -> None:
    assert follows(line(), "--ro-bind", "/dev/null", "/srv/work/.env")
    assert follows(line(), "--tmpfs", "/srv/work/keys", "--remount-ro", "/srv/work/keys")


def test_every_directory_in_memory_has_a_size_or_is_read_only() -> None:
    parts = line()
    for at, part in enumerate(parts):
        if part == "--tmpfs":
            assert parts[at - 4] == "--size"
    assert follows(parts, "--size", "1000", "--perms", "1777", "--tmpfs", "/tmp")
    assert follows(parts, "--remount-ro", "/dev", "--remount-ro", "/")


def test_the_command_is_last_and_begins_where_it_is_told() -> None:
    assert line()[-6:] == ["--chdir", "/srv/work/a", "--", "sh", "-c", "x"]
    assert follows(line(), "--seccomp", "5")


def test_landlock_gives_no_right_to_create_devices() -> None:
    directory = rule(3, writable=True, is_file=False).rights
    assert not directory & (1 << 6 | 1 << 11)
    assert directory & WRITE_FILE
    assert not rule(3, writable=False, is_file=False).rights & WRITE_FILE


def test_landlock_gives_a_file_only_rights_of_files() -> None:
    assert rule(3, writable=False, is_file=True).rights == EXECUTE | READ_FILE
    assert rule(3, writable=True, is_file=True).rights & DEVICE
    assert rule(3, writable=True, is_file=True).rights < 1 << 16
