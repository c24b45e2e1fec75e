"""The web page: its built files, read once, and the headers they are sent with.

Each file is a route of its own, so no path leads outside. Any other path that a browser opens gets
the index, and the page routes it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware
from msgspec import Struct

BUILT: Final = Path(__file__).with_name("built")
"""Where a build puts the page. It is in every wheel, and not in a checkout."""
INDEX: Final = "/index.html"
ASSETS_PREFIX: Final = "/assets/"
"""Path prefix of files whose names change with their content."""
NON_PAGE_PREFIXES: Final = ("/api/", "/internal/", ASSETS_PREFIX)
"""Path prefixes that never get the index."""
COMPRESSED_SUFFIXES: Final[Mapping[str, str]] = {"br": ".br", "gzip": ".gz"}
"""Suffixes of compressed copies, best encoding first."""
MEDIA_TYPES: Final[Mapping[str, str]] = {
    ".css": "text/css",
    ".html": "text/html",
    ".ico": "image/x-icon",
    ".js": "text/javascript",
    ".json": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain",
    ".webmanifest": "application/manifest+json",
    ".woff2": "font/woff2",
}
"""Fixed media types: those of the machine may be wrong, and the page would not load."""

CONTENT_SECURITY_POLICY: Final = (
    "default-src 'self'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data: blob:; object-src 'none'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'"
)
"""Content security policy: nothing is loaded from or sent to another origin; no inline scripts.

`'self'` in `connect-src` covers WebSocket too.
"""
PAGE_HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
IMMUTABLE_HEADERS: Final[Mapping[str, str]] = {
    "Cache-Control": "public, max-age=31536000, immutable",
    "Vary": "Accept-Encoding",
}

NOT_BUILT: Final = (
    "The page is not built. In a checkout: make run, or python ui/build.py and start again.\n"
    "The API works all the same, at /api/v1, and so does holdfast chat.\n"
)
NOT_BUILT_HTML: Final = f"""\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Holdfast</title>
<h1>Holdfast</h1>
<p>{NOT_BUILT.replace(chr(10), "<br>")}</p>
</html>
"""


class Asset(Struct, frozen=True):
    """A file of the page, as it is sent."""

    path: str
    body: bytes
    media: str
    packed: Mapping[str, bytes]
    """Compressed copies, by encoding."""
    tag: str

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers of the file."""
        return IMMUTABLE_HEADERS if self.path.startswith(ASSETS_PREFIX) else PAGE_HEADERS


def serve_page(app: web.Application, directory: Path = BUILT) -> web.Application:
    """Add the page to an application. It needs no authentication, since it holds no secret."""
    assets = read_page(directory)
    for path, asset in assets.items():
        app.router.add_get(path, _sender(asset))
    index = _sender(assets[INDEX]) if INDEX in assets else _not_built
    app.router.add_get("/", index)
    app.middlewares.append(_page_fallback(index))
    return app


def read_page(directory: Path) -> Mapping[str, Asset]:
    """All files of a directory, by path; none if it does not exist."""
    files = {
        f"/{file.relative_to(directory).as_posix()}": file.read_bytes()
        for file in sorted(directory.rglob("*"))
        if file.is_file()
    }
    return {asset.path: asset for asset in _assets(files)}


def _assets(files: Mapping[str, bytes]) -> Iterator[Asset]:
    for path, body in files.items():
        if path.endswith(tuple(COMPRESSED_SUFFIXES.values())):
            continue
        packed = {
            name: files[path + suffix]
            for name, suffix in COMPRESSED_SUFFIXES.items()
            if path + suffix in files
        }
        yield Asset(path, body, _media(path), packed, sha256(body).hexdigest()[:32])


def _media(path: str) -> str:
    media = MEDIA_TYPES.get(Path(path).suffix, "application/octet-stream")
    return f"{media}; charset=utf-8" if media.startswith("text/") else media


# --- responses -----------------------------------------------------------------------------------


def _sender(asset: Asset) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def send(request: web.Request) -> web.StreamResponse:
        cached_tags = request.if_none_match or ()
        tag = {"ETag": f'"{asset.tag}"'}
        if any(one.value in (asset.tag, "*") for one in cached_tags):
            # With all headers: a browser keeps those of the last response.
            return web.Response(status=304, headers={**asset.headers, **tag})
        body, encoding = asset.body, encoding_for(request.headers.get("Accept-Encoding", ""), asset)
        if encoding is not None:
            # Other bytes than those that the tag names.
            body, tag = asset.packed[encoding], {"Content-Encoding": encoding}
        headers = {"Content-Type": asset.media, **asset.headers, **tag}
        return web.Response(body=body, headers=headers)

    return send


def encoding_for(accepted: str, asset: Asset) -> str | None:
    """The best encoding that the browser accepts and that exists; None: uncompressed."""
    names = set(_accepted_encodings(accepted.lower().split(",")))
    return next((name for name in asset.packed if name in names), None)


def _accepted_encodings(words: Iterable[str]) -> Iterator[str]:
    for word in words:
        name, _, weight = word.partition(";")
        if weight.replace(" ", "").removeprefix("q=").strip("0.") or not weight:
            yield name.strip()


async def _not_built(request: web.Request) -> web.StreamResponse:
    if wants_html(request):
        return web.Response(status=503, text=NOT_BUILT_HTML, content_type="text/html")
    return web.Response(status=503, text=NOT_BUILT)


def _page_fallback(index: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> Middleware:
    """Serve the index for paths that a browser opens and that are not routes."""

    @web.middleware
    async def serve_index(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            return await handler(request)
        except web.HTTPNotFound:
            if not is_page_path(request):
                raise
            return await index(request)

    return serve_index


def is_page_path(request: web.BaseRequest) -> bool:
    """Whether the request gets the index if no route matches."""
    below = f"{request.path}/".startswith(NON_PAGE_PREFIXES)
    return request.method in ("GET", "HEAD") and not below and wants_html(request)


def wants_html(request: web.BaseRequest) -> bool:
    """Whether the client accepts HTML, as a browser does for pages."""
    return "text/html" in request.headers.get("Accept", "")
