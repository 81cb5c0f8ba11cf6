"""Is a file that was read seen when it changed, and only such a file?"""

import pytest

from identity.files import CASES
from identity.projects import Project


def marked(number, case):
    # Many are alike: each sixth is enough for a quick look.
    marks = [pytest.mark.slow] if case.slow or (number % 6 and case.alike) else []
    if case.unseen:  # as the docs say; strict, so that they stay true
        marks.append(pytest.mark.xfail(reason=f"not seen: {case.unseen}", strict=True))
    if case.skip:
        marks.append(pytest.mark.skip(reason=case.skip))
    return pytest.param(case, id=case.name, marks=marks)


@pytest.mark.parametrize("case", [marked(*one) for one in enumerate(CASES)])
def test_files_that_were_read(tmp_path, players, case):
    project = Project(tmp_path, players)
    project.write(case.files)
    for number, step in enumerate(case.steps):
        problems = step(project)
        assert not problems, f"step {number}, {step}: {'; '.join(problems)}\n{project.said}"
