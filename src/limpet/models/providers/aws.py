"""How is a request to AWS signed, in place of a key?"""

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from limpet.errors import SetupError

TOKEN = "AWS_BEARER_TOKEN_BEDROCK"  # noqa: S105 - the name of its variable
HINT = f"check the AWS credentials and what they permit, or set {TOKEN} to an API key"
HOST = re.compile(r"bedrock-runtime(?:-fips)?\.([a-z0-9-]+)\.")
"""AWS's own, with its region."""
_NAMES = (
    "AWS_ACCESS_KEY_ID", "AWS_PROFILE", "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)  # fmt: skip


def region() -> str:
    """Return the region that the environment names; empty: none."""
    return os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or ""


def is_named() -> bool:
    """Return whether the environment says which credentials to take."""
    return any(os.environ.get(name) for name in _NAMES)


class Credentials:
    """The credentials that botocore finds: in variables, in files, or of the machine's role."""

    def __init__(self) -> None:
        self._found: Any = None

    def find(self) -> Sequence[str]:
        """Find them; return their secrets.

        Raises:
            SetupError: There are none, or botocore is missing.
        """
        try:
            from botocore import exceptions, session  # noqa: PLC0415 - an extra
        except ImportError:
            raise SetupError(
                "bedrock: to sign requests with AWS credentials, botocore is needed",
                hint=f"pip install 'limpet[bedrock]', or set {TOKEN} to an API key",
            ) from None
        why: Exception | str = "none are configured"
        try:
            self._found = self._found or session.Session().get_credentials()
            if self._found is not None:
                return _secrets_of(self._found.get_frozen_credentials())
        except (exceptions.BotoCoreError, exceptions.ClientError) as error:
            why = error
        raise SetupError(
            f"bedrock: no key, and no AWS credentials: {why}",
            hint=f"set {TOKEN} to an API key, or AWS_PROFILE; or run: aws configure",
        )

    def sign(self, url: str, body: bytes) -> tuple[Mapping[str, str], Sequence[str]]:
        """Return the headers of a request, and the secrets that it is signed with.

        Raises:
            SetupError: They have expired, or there is no region to sign for.
        """
        from botocore import auth, awsrequest, exceptions  # noqa: PLC0415 - an extra

        found = HOST.search(urlsplit(url).netloc)
        where = found[1] if found else region()
        if not where:
            raise SetupError("bedrock: no region to sign requests for", hint="set AWS_REGION")
        request = awsrequest.AWSRequest(
            "POST", url, data=body, headers={"Content-Type": "application/json"}
        )
        try:
            frozen = self._found.get_frozen_credentials()
            auth.SigV4Auth(frozen, "bedrock", where).add_auth(request)
        except (exceptions.BotoCoreError, exceptions.ClientError) as error:
            raise SetupError(f"bedrock: no AWS credentials: {error}", hint=HINT) from error
        return dict(request.headers.items()), _secrets_of(frozen)


def _secrets_of(frozen: Any) -> Sequence[str]:
    return [*filter(None, (frozen.access_key, frozen.secret_key, frozen.token))]
