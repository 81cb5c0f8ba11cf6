"""Whose code is it: the user's own, or an installed package's?"""

import os
import sys
import sysconfig
import textwrap
from pathlib import Path

import pydantic
import pytest
from e2e import ready_limpet

import limpet
from limpet.fingerprints.walk.ownership import holds_users_files, is_users_file

STDLIB = sysconfig.get_path("stdlib")


@pytest.mark.parametrize(
    "file",
    [
        "/home/me/project/app.py",
        "/home/me/project/src/app/__init__.py",
        "/opt/site-packages-mirror/project/app.py",
        "/opt/my-site-packages/project/app.py",
        "/home/me/site-packages.py",
        "/home/me/lib.zip/app.py",
        "<ipython-input-3-1f2e>",
        "app.py",
        STDLIB + "-of-mine/app.py",
    ],
)
def test_code_outside_of_folders_for_packages_is_the_users(file):
    assert is_users_file(file)


@pytest.mark.parametrize(
    "file",
    [
        "/home/me/project/.venv/lib/python3.12/site-packages/httpx/__init__.py",
        "/home/me/project/venv/lib/python3.9/site-packages/httpx/_client.py",
        "/usr/lib/python3/dist-packages/yaml/__init__.py",
        "/srv/shared/site-packages/tool.py",
        "/srv/shared/site-packages/tool-1.0-py3.11.egg/tool/main.py",
        "/srv/shared/nothing/../site-packages/tool/main.py",
        "site-packages/tool.py",
        os.path.join(STDLIB, "json", "decoder.py"),  # noqa: PTH118 - a text
        pydantic.__file__,
        limpet.__file__,
        "<frozen importlib._bootstrap>",
    ],
)
def test_installed_code_and_pythons_own_is_a_librarys(file):
    assert not is_users_file(file)


def test_a_package_that_is_a_link_to_ones_own_folder_is_ones_own(tmp_path):
    own, packages = tmp_path / "work" / "tool", tmp_path / "site-packages"
    for folder in (own, packages, tmp_path / "store" / "site-packages" / "other"):
        folder.mkdir(parents=True)
    (packages / "tool").symlink_to(own)
    (packages / "other").symlink_to(tmp_path / "store" / "site-packages" / "other")
    assert is_users_file(str(packages / "tool" / "main.py"))
    assert not is_users_file(str(packages / "other" / "main.py"))


def test_bytecode_in_a_folder_of_its_own_is_of_whoever_has_the_source(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path))
    assert not holds_users_files(f"{tmp_path}{STDLIB}/json")
    assert holds_users_files(f"{tmp_path}/home/me/project")


SCRIPT = """
    import json, site, sys
    site.addsitedir(sys.argv[1])
    import app
    from limpet.fingerprints.identity import identity_of
    print(json.dumps(identity_of(app.answer).parts))
"""


def parts(folder: Path) -> str:
    return ready_limpet.python_says(
        [sys.executable, "-c", textwrap.dedent(SCRIPT), str(folder / "site-packages")],
        cwd=folder,
    )


def project(folder: Path, where: str) -> Path:
    """Write a project that uses a package which a .pth file names."""
    packages, tool = folder / "site-packages", folder / where / "tool"
    packages.mkdir(exist_ok=True)
    tool.mkdir(parents=True)
    (folder / "app.py").write_text("import tool\n\ndef answer(q):\n    return tool.ask(q)\n")
    (tool / "__init__.py").write_text("def ask(q):\n    return q\n")
    (packages / "tool.pth").write_text(str(folder / where) + "\n")
    return tool / "__init__.py"


def test_an_edit_of_an_editable_install_is_seen(tmp_path):
    tool = project(tmp_path, "work")
    before = parts(tmp_path)
    tool.write_text("def ask(q):\n    return q + '!'\n")
    assert parts(tmp_path) != before


def test_an_edit_of_an_installed_package_that_a_pth_file_names_is_none(tmp_path):
    tool = project(tmp_path, "elsewhere/site-packages")
    before = parts(tmp_path)
    tool.write_text("def ask(q):\n    return q + '!'\n")
    assert parts(tmp_path) == before


@pytest.mark.parametrize("folder", ["/", "", "."])
def test_the_root_has_no_folder_above_it(folder):
    assert holds_users_files(folder) in (True, False)
