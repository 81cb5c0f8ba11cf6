"""What the end-to-end tests share: a served agent, and a certificate."""

import shutil
import subprocess

import pytest
from e2e.nat_server import serving


@pytest.fixture
def server():
    """Serve an agent of the toolkit."""
    with serving() as one:
        yield one


@pytest.fixture(scope="session")
def certificate(tmp_path_factory):
    """Make a certificate of localhost that nobody trusts yet; return its file and its key's."""
    folder = tmp_path_factory.mktemp("tls")
    cert, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(
        [shutil.which("openssl"), "req", "-x509", "-newkey", "ec", "-pkeyopt",
         "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(cert)],
        check=True, capture_output=True,
    )  # fmt: skip
    return cert, key
