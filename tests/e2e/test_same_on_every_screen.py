"""Every screen says the same of a run: `run`, `status`, `list`, `show`, `view` and `report`."""

import re

from e2e.project import make, run


def test_with_failures_the_mean_stays_in_its_place_and_the_range_is_beside_it(tmp_path):
    make(tmp_path, workflow="app:fail_some", more="retry: {max_retries: 0}\n")
    ran = run(tmp_path)  # q3 and q13 fail
    assert ran.returncode == 1
    said = "1.000 (0.70–1.00)"
    assert re.search(rf"^correct +18/18 +{re.escape(said)} +of 18 completed$", ran.stdout, re.M)
    assert f"correct {said}" in run(tmp_path, command="list").stdout
    for command in ("status", "show"):
        assert f"correct {said} of 18 completed" in run(tmp_path, command=command).stdout
    markdown = run(tmp_path, "--markdown", "-", command="report").stdout
    assert f"{said} | of 18 completed" in markdown
