"""The site is built strictly, and is readable, searchable and alone in the real browser."""

import re
import shutil
import subprocess
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
COPIED = ("docs", "mkdocs.yml", "CHANGELOG.md")
LINKED = ("src", "tests", "examples", "benchmarks")


def project(folder):
    """A copy of what the site is built from."""
    folder.mkdir()
    for name in COPIED:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copyfile
        copy(ROOT / name, folder / name)
    for name in LINKED:
        (folder / name).symlink_to(ROOT / name)
    return folder


def build(folder, *, generated=True):
    """Do what `make docs` does."""
    steps = (
        *([["docs/generate.py"]] if generated else []),
        ["-m", "zensical", "build", "--clean", "--strict"],
        ["docs/finish.py"],
    )
    for words in steps:
        done = subprocess.run(
            [sys.executable, *words], cwd=folder, capture_output=True, text=True, check=False
        )
        if done.returncode:
            break
    return done


def test_make_docs_does_what_this_test_does():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    recipe = makefile.partition("\ndocs:")[2].partition("\n\n")[0]
    assert [line.partition("$(BIN)/")[2] for line in recipe.splitlines()[1:]] == [
        "python docs/generate.py",
        "zensical build --clean --strict",
        "python docs/finish.py",
    ]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = project(tmp_path_factory.mktemp("docs") / "limpet")
    done = build(folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "site"


@pytest.mark.parametrize(
    "wrong",
    [
        "[gone](reference/gone.md)",
        "[gone](index.md#gone)",
        "::: limpet.gone",
        "[gone](../src/limpet/gone.py)",
    ],
    ids=["link", "anchor", "name", "source file"],
)
def test_what_leads_nowhere_ends_the_build(wrong, tmp_path):
    folder = project(tmp_path / "limpet")
    for path in (folder / "docs").iterdir():  # one page is built sooner than all
        if path.is_dir():
            shutil.rmtree(path)
        elif path.suffix == ".md":
            path.unlink()
    settings = (folder / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[0]
    (folder / "mkdocs.yml").write_text(f"{settings}\nnav:\n  - Home: index.md\n", encoding="utf-8")
    page = folder / "docs/index.md"
    page.write_text("# Limpet\n", encoding="utf-8")
    done = build(folder, generated=False)
    assert done.returncode == 0, done.stdout + done.stderr
    page.write_text(f"# Limpet\n\n{wrong}\n", encoding="utf-8")
    done = build(folder, generated=False)
    assert done.returncode
    assert "gone" in re.sub(r"\x1b\[[\d;]*m", "", done.stdout + done.stderr)


@pytest.fixture(scope="module")
def address(site):
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=site)) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture
def open_page(browser, address):
    """Open a page, and fail if it says an error or asks anybody but the server."""
    wrong, contexts = [], []

    def is_here(url):
        return url.startswith((address, "data:", "blob:"))

    def opened(path, **how):
        context = browser.new_context(**how)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda asked: is_here(asked.url) or wrong.append(asked.url))
        page.on("response", lambda got: got.status < 400 or wrong.append(f"{got.status} {got.url}"))
        page.goto(f"{address}/{path}", wait_until="networkidle")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert wrong == []


PAGES = (
    "index.html", "tutorial/first-crash.html", "reference/options.html", "reference/errors.html",
    "reference/eval-yml.html", "explanation/life-of-a-cell.html", "explanation/architecture.html",
    "python.html", "changelog.html", "benchmarks.html",
)  # fmt: skip


def test_the_search_finds_a_word(open_page):
    page = open_page("index.html")
    page.keyboard.press("/")
    page.keyboard.type("resume")
    page.get_by_role("option").filter(has_text="Your first crash").first.click()
    page.wait_for_url("**/tutorial/first-crash.html*")


def test_the_copy_button_of_a_console_takes_the_commands_alone(open_page):
    page = open_page("tutorial/first-crash.html", permissions=["clipboard-read", "clipboard-write"])
    console = page.locator(".language-console").first
    assert console.locator("code").inner_text().startswith("$ limpet init crash && cd crash\nnext:")
    console.hover()
    console.locator("button[data-md-type=copy]").click()
    page.wait_for_function("navigator.clipboard.readText().then(text => text.length > 0)")
    assert page.evaluate("navigator.clipboard.readText()") == "limpet init crash && cd crash"


@pytest.mark.parametrize("path", PAGES)
def test_a_narrow_page_does_not_scroll_sideways(path, open_page):
    page = open_page(path, viewport={"width": 375, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 375


def luminance(colour):
    parts = [int(part) / 255 for part in colour]
    linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_text_is_readable_in_light_and_dark(scheme, open_page):
    page = open_page("tutorial/first-crash.html", color_scheme=scheme)
    text, ground = page.evaluate(
        """() => {
          const paint = document.createElement("canvas").getContext("2d")
          const rgb = colour => {
            paint.clearRect(0, 0, 1, 1); paint.fillStyle = ground; paint.fillRect(0, 0, 1, 1)
            paint.fillStyle = colour; paint.fillRect(0, 0, 1, 1)
            return [...paint.getImageData(0, 0, 1, 1).data].slice(0, 3)
          }
          const ground = getComputedStyle(document.body).backgroundColor
          const text = getComputedStyle(document.querySelector("article p")).color
          return [rgb(text), rgb(ground)]
        }"""
    )
    lighter, darker = sorted((luminance(text), luminance(ground)), reverse=True)
    assert (lighter + 0.05) / (darker + 0.05) >= 7
    assert (luminance(ground) < 0.1) == (scheme == "dark")


def test_every_link_of_the_site_leads_to_a_file_in_it(site):
    for page in site.rglob("*.html"):
        if page.name == "404.html":
            continue
        for target in re.findall(r'(?:href|src)="([^"]+)"', page.read_text(encoding="utf-8")):
            parts = urlsplit(target)
            if not parts.scheme and parts.path:
                assert (page.parent / parts.path).exists(), f"{page.relative_to(site)}: {target}"


def test_a_language_model_finds_every_page(site):
    index = (site / "llms.txt").read_text(encoding="utf-8")
    assert index.startswith("# Limpet\n\n> ")
    for title in ("Tutorials", "How-to", "Reference", "Explanation", "Project"):
        assert f"\n## {title}\n" in index
    assert "- [Your first crash](tutorial/first-crash.md)" in index
    assert (site / "tutorial/first-crash.md").is_file()
    full = (site / "llms-full.txt").read_text(encoding="utf-8")
    assert "# Your first crash\n" in full
    assert "# Durability" in full


def test_the_markdown_of_the_site_has_no_directives_and_no_dead_links(site):
    pages = [*site.rglob("*.md"), site / "llms.txt", site / "llms-full.txt"]
    for page in pages:
        text = re.sub(r"(?ms)^ *```.*?^ *```$", "", page.read_text(encoding="utf-8"))
        assert not re.search("^:::", text, re.MULTILINE), page.name
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            parts = urlsplit(target)
            whole = page.name == "llms-full.txt"
            assert parts.scheme or parts.path or not whole, f"{page.name}: {target}"
            if not parts.scheme and parts.path:
                assert (page.parent / parts.path).exists(), f"{page.name}: {target}"
    full = (site / "llms-full.txt").read_text(encoding="utf-8")
    assert "\n## judge\n\n```text\njudge(model: Any, " in full
    assert "\nraise_for_failures() -> None\n" in full
