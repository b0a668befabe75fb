"""The service: finding it, and what its errors mean."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

from openenv_gym import errors


__all__ = ["KEY_VARIABLE", "connect", "is_gone", "translated"]

KEY_VARIABLE = "DAYTONA_API_KEY"
URL_VARIABLE = "DAYTONA_API_URL"
TARGET_VARIABLE = "DAYTONA_TARGET"

_URL = "https://app.daytona.io/api"


def connect(
    api_key: str | None = None, api_url: str | None = None, region: str | None = None
) -> Any:
    """Return the SDK's client.

    Args:
        api_key: Key of an account; by default what ``DAYTONA_API_KEY`` holds.
        api_url: Where the service is; by default what ``DAYTONA_API_URL`` says.
        region: Region of sandboxes; by default what ``DAYTONA_TARGET`` says, or the account's.

    Raises:
        ProviderUnavailableError: The SDK is not installed, or there is no key.
    """
    try:
        import daytona
    except ImportError as error:
        raise errors.ProviderUnavailableError(
            "The Daytona provider needs the package daytona, which is not installed.",
            hint='Run pip install "openenv-gym[daytona]".',
        ) from error
    # Not left to the SDK, which also looks into `.env` of whatever directory this runs in.
    key = api_key or os.environ.get(KEY_VARIABLE)
    if not key:
        raise errors.ProviderUnavailableError(
            f'provider="daytona" needs an API key, and {KEY_VARIABLE} is not set.',
            hint="Make a key on the dashboard of Daytona, with the right to write sandboxes, and "
            f"set {KEY_VARIABLE}.",
        )
    config = daytona.DaytonaConfig(
        api_key=key,
        api_url=api_url or os.environ.get(URL_VARIABLE) or _URL,
        target=region or os.environ.get(TARGET_VARIABLE),
        otel_enabled=False,
    )
    return daytona.Daytona(config)


@contextlib.contextmanager
def translated(what: str) -> Iterator[None]:
    """Turn what the SDK raises into errors of this library.

    Args:
        what: What was being done, such as ``"start a sandbox"``.

    Raises:
        ProviderPermissionError: The key is wrong, or does not allow it.
        ProviderUnavailableError: The service does not answer.
        ServerStartError: It refuses for another reason.
    """
    import daytona

    try:
        yield
    except daytona.DaytonaError as error:
        text = f"Daytona cannot {what}: {error}"
        data = {"status": error.status_code}
        if error.status_code in (401, 403):
            raise errors.ProviderPermissionError(
                text, hint=f"Check {KEY_VARIABLE} and the rights of the key.", data=data
            ) from error
        if error.status_code is None and isinstance(error, daytona.DaytonaConnectionError):
            raise errors.ProviderUnavailableError(
                text, hint=f"Check the network, and {URL_VARIABLE}.", data=data
            ) from error
        raise errors.ServerStartError(text, data=data) from error


def is_gone(error: BaseException) -> bool:
    """Tell whether an error says that a sandbox does not exist any more."""
    import daytona

    return isinstance(error, daytona.DaytonaNotFoundError)
