"""The layers of a machine: tried, named in errors with a remedy, and never replaced in silence."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.kernel.errors import ConfigError
from holdfast.tools.sandbox import support as layers
from holdfast.tools.sandbox.support import SandboxLayer, SandboxSupport, support

WORKS = SandboxLayer("bubblewrap", True)
LACKS = SandboxLayer("bubblewrap", False, "it was not found", "install it")
OLD = SandboxLayer("landlock", False, "the kernel has none", "use a newer one")


def test_the_best_layer_that_works_is_the_profile() -> None:
    landlock = SandboxLayer("landlock", True)
    assert SandboxSupport((WORKS, landlock)).profile == "bubblewrap"
    assert SandboxSupport((LACKS, landlock)).profile == "landlock"
    assert SandboxSupport((LACKS, OLD)).profile == "none"


def test_a_layer_that_is_missing_is_named_with_its_remedy() -> None:
    with pytest.raises(ConfigError) as refused:
        SandboxSupport((LACKS, OLD)).require()
    assert "bubblewrap: it was not found (install it)" in str(refused.value)
    assert "landlock: the kernel has none (use a newer one)" in str(refused.value)


def test_another_layer_does_not_replace_the_required_one() -> None:
    only_landlock = SandboxSupport((LACKS, SandboxLayer("landlock", True)))
    only_landlock.require()
    with pytest.raises(ConfigError, match="bubblewrap: it was not found"):
        only_landlock.require("bubblewrap")


def test_each_layer_of_this_machine_works_or_says_why_not() -> None:
    found = support()
    assert [layer.name for layer in found.layers] == ["bubblewrap", "landlock"]
    for layer in found.layers:
        assert layer.works or (layer.problem and layer.remedy)
    assert support() is found


def test_a_bubblewrap_of_the_machine_is_used_only_if_it_is_new_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "bwrap"
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(layers, "_packaged", lambda: "")
    program.write_text("#!/bin/sh\necho '--bind SRC DEST'\n")
    program.chmod(0o755)
    assert layers.bubblewrap_program() == ""
    program.write_text("#!/bin/sh\necho '--bind-fd FD DEST'\n")
    assert layers.bubblewrap_program() == str(program)


def test_a_bubblewrap_that_fails_is_reported_with_what_it_said(tmp_path: Path) -> None:
    program = tmp_path / "bwrap"
    program.write_text(
        "#!/bin/sh\necho 'bwrap: no permissions to create new namespace' >&2\nexit 1"
    )
    tmp_path.chmod(0o755)
    program.chmod(0o755)
    layer = layers._bubblewrap(str(program))
    assert not layer.works
    assert layer.problem
    assert "allow user namespaces" in layer.remedy


def test_an_old_landlock_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.tools.sandbox.launcher.landlock_abi", lambda: 4)
    layer = layers._landlock()
    assert not layer.works
    assert layer.problem == "version 6 is needed, and the kernel has 4"
