"""Files from paths, bytes and URLs: their media type, name and size."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.errors import ConfigError
from holdfast.messages import File

PNG = b"\x89PNG\r\n\x1a\n...."


@pytest.mark.parametrize(
    ("name", "data", "kind"),
    [
        ("notes", b"text", "text/plain"),
        ("notes", b"\0\1", "application/octet-stream"),
        ("a.md", b"# A", "text/markdown"),
        ("a.csv", b"a,b", "text/csv"),
        ("a.tar.gz", b"\x1f\x8b\0", "application/octet-stream"),
        ("scan.jpg", PNG, "image/png"),
        ("report", b"%PDF-1.7", "application/pdf"),
        ("sound", b"RIFF....WAVEfmt", "audio/wav"),
        ("a.zip", b"PK\x03\x04", "application/zip"),
        ("a.docx", b"PK\x03\x04", None),
    ],
)
def test_the_media_type_is_guessed_from_the_content_and_the_name(
    tmp_path: Path, name: str, data: bytes, kind: str | None
) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    file = File.from_path(path)
    assert (file.name, file.data) == (name, data)
    assert file.media_type == kind or kind is None
    assert File.from_path(str(path), "image/tiff", name="x").media_type == "image/tiff"


def test_a_file_that_cannot_be_read_is_refused_with_its_path(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read .*none: No such file"):
        File.from_path(tmp_path / "none")
    with pytest.raises(ConfigError, match=r"cannot read .*: Is a directory"):
        File.from_path(tmp_path)
    (tmp_path / "empty.txt").touch()
    with pytest.raises(ConfigError, match=r"empty.txt is empty"):
        File.from_path(tmp_path / "empty.txt")


def test_a_file_that_is_too_large_or_has_no_end_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "large"
    path.write_bytes(b"12345")
    assert File.from_path(path, max_bytes=5).data == b"12345"
    with pytest.raises(ConfigError, match="is larger than 4 bytes: pass a part of it"):
        File.from_path(path, max_bytes=4)
    with pytest.raises(ConfigError, match="is larger than 1,000 bytes"):
        File.from_path("/dev/zero", max_bytes=1_000)


def test_bytes_are_a_file_with_a_guessed_media_type() -> None:
    assert File.from_bytes(PNG) == File("image/png", data=PNG)
    assert File.from_bytes(b"{}", name="a.json") == File("application/json", "a.json", b"{}")
    assert File.from_bytes(memoryview(b"x"), "text/css").data == b"x"
    with pytest.raises(ConfigError, match="the data is a str: use bytes"):
        File.from_bytes("text")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="'picture' is not a media type"):
        File.from_bytes(b"x", "picture")


def test_a_url_is_a_reference_that_the_provider_fetches() -> None:
    url = "https://example.org/a%20b.png?size=2"
    assert File.from_url(url) == File("image/png", "a b.png", ref=url)
    assert File.from_url("https://example.org/chart", "image/png").name == "chart"
    with pytest.raises(ConfigError, match="does not show what it is: pass media_type"):
        File.from_url("https://example.org/")
    with pytest.raises(ConfigError, match="is not a URL of a file"):
        File.from_url("chart.png")
