"""Is only the user's file looked at when files are opened?"""

import pytest

from limpet.fingerprints.files import audit_hook as running_code
from limpet.fingerprints.files.audit_hook import Watch, listen, stop_listening
from limpet.fingerprints.files.file_reads import StepReads
from limpet.fingerprints.files.project import Project


@pytest.fixture
def reads(tmp_path):
    found = StepReads("workflow")
    watch = Watch(Project([tmp_path / "project"]), [found])
    listen(watch)
    with watch.setting_up("workflow"):
        yield found
    stop_listening(watch)


@pytest.fixture
def prompt(tmp_path):
    file = tmp_path / "project" / "prompts" / "one.txt"
    file.parent.mkdir(parents=True)
    (tmp_path / "project" / "pyproject.toml").touch()
    file.write_text("Be brief.")
    return file


def test_a_librarys_file_is_told_apart_before_the_stack_is_looked_at(
    tmp_path, prompt, reads, monkeypatch
):
    # An import of ragas opens 10,000 files, some below 500 frames.
    packages = tmp_path / "project" / ".venv" / "site-packages" / "tool"
    packages.mkdir(parents=True)
    (packages / "data.json").write_text("{}")
    looks = []
    frames = running_code._frames
    monkeypatch.setattr(running_code, "_frames", lambda: looks.append(1) or frames())
    (packages / "data.json").read_text()
    list(packages.iterdir())
    assert not looks
    assert prompt.read_text()
    assert looks
    assert [read.file for read in reads.new] == ["prompts/one.txt"]


def test_a_users_folder_that_a_library_links_to_counts(tmp_path, prompt, reads):
    space = tmp_path / "site-packages" / "space"
    space.mkdir(parents=True)
    (space / "prompts").symlink_to(prompt.parent)
    (space / "prompts" / "one.txt").read_text()
    list((space / "prompts").iterdir())
    assert [read.file for read in reads.new] == ["prompts/one.txt", "prompts/"]
