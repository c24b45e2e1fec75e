"""A policy is checked when it is built, and names all that a command may use."""

from __future__ import annotations

import pytest

from holdfast.kernel.errors import ConfigError
from holdfast.tools.sandbox.policy import (
    SandboxLimits,
    SandboxMount,
    SandboxPolicy,
    inside,
    variables,
)


@pytest.mark.parametrize(
    "path",
    [
        *("", "relative", "/", "/proc", "/proc/1", "/dev", "/sys/fs", "/run/user/1", "/a/../etc"),
        *("/a/", "/usr", "/usr/local/work", "/etc", "/bin", "/lib64/x"),
    ],
)
def test_a_directory_of_the_system_is_not_writable(path: str) -> None:
    with pytest.raises(ConfigError, match="name another directory"):
        SandboxPolicy(directory=path)


@pytest.mark.parametrize("path", ["/", "/proc", "/run", "/run/docker.sock", "data", "/dev/kvm"])
def test_sockets_of_services_and_devices_are_not_mounted(path: str) -> None:
    with pytest.raises(ConfigError, match="name another directory"):
        SandboxPolicy(directory="/srv/work", mounts=(SandboxMount(path),))


@pytest.mark.parametrize("path", ["", "/etc", "../x", "a/../b", ".", "a//b", "a/", "a\0b"])
@pytest.mark.parametrize("name", ["masked", "protected"])
def test_a_path_that_is_not_inside_is_refused(name: str, path: str) -> None:
    with pytest.raises(ConfigError, match="is not relative to the directory"):
        SandboxPolicy(directory="/srv/work", **{name: (path,)})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "host",
    [
        *("", "*", "*.", "a b", "http://a.org", "a.org/x", "A.org", "127.0.0.1", "10.0.0.1:80"),
        *("[::1]", "a.org:", "a.org:123456", "a\0.org", ".org", "-a.org", "a.*.org", "a.org\n"),
    ],
)
def test_a_host_that_is_not_a_name_is_refused(host: str) -> None:
    with pytest.raises(ConfigError, match="is not a host name"):
        SandboxPolicy(directory="/srv/work", network=(host,))


@pytest.mark.parametrize("host", ["pypi.org", "*.example.com", "example.com:8443", "localhost"])
def test_a_host_is_a_name_with_or_without_a_port(host: str) -> None:
    assert SandboxPolicy(directory="/srv/work", network=(host,)).network == (host,)


@pytest.mark.parametrize("name", SandboxLimits.__struct_fields__)
def test_a_limit_is_positive(name: str) -> None:
    with pytest.raises(ConfigError, match=f"the sandbox limit {name} is 0"):
        SandboxLimits(**{name: 0})


def test_nothing_of_our_environment_is_in_the_one_inside() -> None:
    policy = SandboxPolicy(directory="/srv/work", environ={"LANG": "C"})
    assert variables(policy) == {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": "/tmp",
        "TMPDIR": "/tmp",
        "LANG": "C",
    }


def test_a_name_that_begins_alike_is_not_inside() -> None:
    assert inside("/srv/work/a", "/srv/work")
    assert inside("/srv/work", "/srv/work")
    assert not inside("/srv/workshop", "/srv/work")
