"""Who asks for the page, which paths are its own, and how a browser's user shows the token."""

from __future__ import annotations

import base64
import binascii
import hmac
import os


__all__ = ["WEB_PATH", "WEB_VARIABLE", "is_web_path", "knows_token", "wants_web"]

WEB_PATH = "/web"

WEB_VARIABLE = "ENABLE_WEB_INTERFACE"
"""The environment variable that asks for the page, as OpenEnv has it."""


def wants_web() -> bool:
    """Tell whether ``ENABLE_WEB_INTERFACE`` asks for the page, in any of OpenEnv's words."""
    return os.environ.get(WEB_VARIABLE, "").strip().lower() in ("1", "true", "yes", "on")


def is_web_path(path: str) -> bool:
    """Tell whether a path is the page's: its own, what is below it, or the server's root."""
    return path in ("/", WEB_PATH) or path.startswith(f"{WEB_PATH}/")


def knows_token(authorization: str, token: str) -> bool:
    """Tell whether a browser's user has given the token as a password (HTTP Basic, RFC 7617)."""
    scheme, _, given = authorization.partition(" ")
    if scheme.lower() != "basic":
        return False
    try:
        _, _, password = base64.b64decode(given.strip(), validate=True).partition(b":")
    except (binascii.Error, ValueError):
        return False
    return hmac.compare_digest(password, token.encode())
