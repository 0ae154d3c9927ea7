"""Tests small sites of a few documents, and the whole site as the task `site` has built it."""

import json
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Queue

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SITE = ROOT / "target" / "site"
GITHUB = "https://github.com/steadlock/steadlock"


def build(folder: Path, **documents: str) -> tuple[str, str]:
    """Builds a site of these documents. Returns the first page and Sphinx's warnings; `docs__a` is `docs/a.md`."""
    for name, text in documents.items():
        file = folder.joinpath(name.replace("__", "/") + ".md")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    options = ["--conf-dir", str(HERE), "--fail-on-warning", "--quiet"]
    command = [sys.executable, "-m", "sphinx", *options, str(folder), str(folder / "target")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert bool(done.returncode) == bool(done.stderr)
    page = (folder / "target" / "README.html").read_text()
    article = re.search(r"<article.*</article>", page, re.DOTALL)
    assert article
    return article[0], done.stderr


def test_a_link_between_documents_becomes_a_link_between_pages(tmp_path: Path) -> None:
    page, wrong = build(
        tmp_path, README="# A\n\n[b](docs/b.md#what-happens-when-)", docs__b="# B\n\n## What happens when …"
    )
    assert not wrong
    assert 'href="docs/b.html#what-happens-when"' in page
    assert 'id="what-happens-when-"' in (tmp_path / "target" / "docs" / "b.html").read_text()


def test_a_link_to_a_file_without_a_page_leads_to_github(tmp_path: Path) -> None:
    (tmp_path / "ci").mkdir()
    (tmp_path / "ci" / "install").write_text("")
    page, wrong = build(tmp_path, README="# A\n\n[file](ci/install), [folder](ci)")
    assert not wrong
    assert f'href="{GITHUB}/blob/main/ci/install"' in page
    assert f'href="{GITHUB}/tree/main/ci"' in page


def test_a_github_url_of_a_document_becomes_a_link_to_its_page(tmp_path: Path) -> None:
    page, wrong = build(tmp_path, README=f"# A\n\n[b]({GITHUB}/blob/main/docs/b.md#b)", docs__b="# B")
    assert not wrong
    assert 'href="docs/b.html#b"' in page


@pytest.mark.parametrize(
    "link",
    [
        "nowhere.md",
        "nowhere",
        "docs/nowhere/",
        "#nowhere",
        "docs/b.md#nowhere",
        f"{GITHUB}/blob/main/docs/b.md#nowhere",
    ],
)
def test_a_broken_link_fails(tmp_path: Path, link: str) -> None:
    _, wrong = build(tmp_path, README=f"# A\n\n[b]({link})", docs__b="# B")
    assert "nowhere" in wrong
    assert "README.md:3" in wrong


def test_a_document_without_a_parent_fails(tmp_path: Path) -> None:
    _, wrong = build(tmp_path, README="# A", core__notes="# B")
    assert "isn't included in any toctree" in wrong


def test_a_remote_picture_is_replaced_by_its_text(tmp_path: Path) -> None:
    page, wrong = build(tmp_path, README="# A\n\n[![CI](https://example.org/ci.svg)](https://example.org)")
    assert not wrong
    assert "<img" not in page
    assert re.search(r'<a [^>]*href="https://example.org"[^>]*>CI</a>', page)


def test_every_document_has_a_page() -> None:
    listed = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    assert [name for name in listed.split() if not (SITE / name).with_suffix(".html").exists()] == []
    assert (SITE / "index.html").read_text() == (SITE / "README.html").read_text()


def test_the_text_of_the_documents_can_be_searched() -> None:
    index = json.loads((SITE / "searchindex.js").read_text().removeprefix("Search.setIndex(").removesuffix(")"))
    pages = {index["docnames"][number] for number in index["terms"]["evict"]}
    assert "docs/operations" in pages


class Loads(HTMLParser):
    """The addresses that a page loads by itself."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(page.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        here = dict(attrs)
        if tag != "a" and here.get("rel") not in {"next", "prev", "search", "index", "canonical"}:
            self.found += [value for name in ("src", "href", "srcset") if (value := here.get(name))]


def test_a_page_loads_nothing_from_elsewhere() -> None:
    pages = [page for page in SITE.rglob("*.html") if not page.is_relative_to(SITE / "api")]
    loaded = {file for page in pages for file in Loads(page).found}
    assert loaded
    assert {file for file in loaded if re.match(r"(\w+:)?//", file)} == set()
    styles = "".join(file.read_text() for file in SITE.joinpath("_static").rglob("*.css"))
    assert re.findall(r"(?:@import|url\()[\"'\s]*(?:https?:)?//[^)]*", styles) == []


class Server(SimpleHTTPRequestHandler):
    """Serves the site and the page that measures it, and receives the results of that page."""

    done: "Queue[dict[str, int]]" = Queue()
    pages: tuple[str, ...] = ()

    def do_GET(self) -> None:
        if self.path != "/measure":
            super().do_GET()
            return
        text = MEASURE.replace("PAGES", json.dumps(self.pages)).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def do_POST(self) -> None:
        self.done.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


# A window of Chromium cannot be as narrow as a phone, but a frame in it can.
MEASURE = """<!doctype html><iframe width="390" height="800"></iframe><script type="module">
const frame = document.querySelector('iframe');
const tooWide = {};
for (const page of PAGES) {
  await new Promise((resolve) => { frame.onload = resolve; frame.src = page; });
  const document = frame.contentDocument;
  const parts = [document.documentElement, document.querySelector('.content')];
  tooWide[page] = Math.max(...parts.map(({ scrollWidth, clientWidth }) => scrollWidth - clientWidth));
}
await fetch('/', { method: 'POST', body: JSON.stringify(tooWide) });
</script>"""


@pytest.fixture
def address() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Server, directory=str(SITE))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.timeout(600)
def test_no_page_is_wider_than_a_phone(address: str, tmp_path: Path) -> None:
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
    Server.pages = tuple(
        f"/{page.relative_to(SITE)}" for page in SITE.rglob("*.html") if not page.is_relative_to(SITE / "api")
    )
    command = [chromium, "--headless", "--no-sandbox", "--disable-dev-shm-usage", f"--user-data-dir={tmp_path}"]
    with subprocess.Popen([*command, f"{address}/measure"], stderr=subprocess.DEVNULL) as browser:
        try:
            too_wide = Server.done.get(timeout=500)
        finally:
            browser.terminate()
    assert set(too_wide) == set(Server.pages)
    assert {page: by for page, by in too_wide.items() if by} == {}
