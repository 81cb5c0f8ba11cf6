"""A model with several keys inside a worker: the driver says which key carries a call."""

from collections import Counter

from e2e.servers import on_a_thread
from model_server import ModelServer, failure

from tests.engines.project import Project, both_engines

A, B = "sk-of-worker-a", "sk-of-worker-b"
CODE = f"""
from limpet.models import openai_api

MODEL = openai_api((HERE / "url").read_text(), model="m", keys=["{A}", "{B}"])


async def answer(item):
    await MODEL.open()
    try:
        return (await MODEL.ask([{{"role": "user", "content": item.input}}])).text
    finally:
        await MODEL.close()
"""


class Keyed(ModelServer):
    """A server that refuses key B from its sixth call on."""

    def __init__(self):
        super().__init__("fine")
        self.by_key = Counter()

    def _refusal(self, asked):
        key = asked.headers["Authorization"].removeprefix("Bearer ")
        self.by_key[key] += 1
        return failure(401, "revoked") if key == B and self.by_key[B] > 5 else None


@both_engines
def test_a_worker_spreads_its_calls_and_goes_on_without_a_refused_key(tmp_path, engine):
    with on_a_thread(Keyed()) as server:
        (tmp_path / "url").write_text(server.url)
        project = Project(tmp_path, CODE, rows=40, more="pace: 4\n")
        done = project.run(engine=engine)
    assert done.returncode in (0, 1), done.stderr
    assert [item.output.value for item in project.result.items] == ["fine"] * 40
    assert server.by_key[A] == 35
    assert 6 <= server.by_key[B] <= 6 + 4  # what was in flight, and no more
