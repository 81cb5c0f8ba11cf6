"""Is a file that was read seen when it changed, and only such a file?"""

import pytest

from identity.files import CASES
from identity.projects import Project

# Each goes the way of another one, which a quick look has.
REPEATED = {
    "run_in_executor",  # asyncio.to_thread
    "in __init__, into something that shows no state",  # at import
    "at import of a script's own module, into a global",  # of any module
    "at import of a script's own module, into something that shows no state",
    "a script in another folder",  # the command there
    "a file for each item, in limpet.map",  # in a run, and limpet.map with one file
    "an evaluator's file, read once",  # read by a workflow at import
    "an override that is looked for, and deleted",  # tried, and deleted
    "one file less in a folder of which all are read",  # one more
    "a file that is emptied",  # other content
    "one line end more",
    "a file that is replaced by a folder's new one",
    "through a link whose target is edited",  # one outside of the project
    "through a linked folder that leads elsewhere from now on",  # a linked file
    "killed in limpet.map, then edited",  # in a run
    "on_change=keep in limpet.map",
    "kept, and another file is edited",  # kept, and edited again
    "more than one trial",  # with a file for each item
    "a file that all items miss is made",  # that one item misses
}
assert {case.name for case in CASES} >= REPEATED


def marked(number, case):
    # Many are alike: each sixth is enough for a quick look.
    is_slow = case.slow or (number % 6 and case.alike) or case.name in REPEATED
    marks = [pytest.mark.slow] if is_slow else []
    if case.unseen:  # as the docs say; strict, so that they stay true
        marks.append(pytest.mark.xfail(reason=f"not seen: {case.unseen}", strict=True))
    if case.skip:
        marks.append(pytest.mark.skip(reason=case.skip))
    return pytest.param(case, id=case.name, marks=marks)


@pytest.mark.quick(7)
@pytest.mark.parametrize("case", [marked(*one) for one in enumerate(CASES)])
def test_files_that_were_read(tmp_path, players, case):
    project = Project(tmp_path, players)
    project.write(case.files)
    for number, step in enumerate(case.steps):
        problems = step(project)
        assert not problems, f"step {number}, {step}: {'; '.join(problems)}\n{project.said}"
