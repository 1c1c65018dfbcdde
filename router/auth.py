"""API keys, and the tenant that each stands for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import sha256

from router.errors import Unauthorized

DEFAULT_TENANT = "default"


class Authenticator:
    """Tells the tenant of a request."""

    def __init__(self, api_keys: Mapping[str, str]) -> None:
        # Looked up by digest, so that the time of a look-up says nothing about a key.
        self._tenants = {sha256(key.encode()).digest(): tenant for key, tenant in api_keys.items()}

    @property
    def required(self) -> bool:
        """Whether requests need a key at all."""
        return bool(self._tenants)

    def tenant(self, raw_headers: Iterable[tuple[bytes, bytes]]) -> str:
        """The tenant of the request's key. Raises :class:`Unauthorized`."""
        if not self._tenants:
            return DEFAULT_TENANT
        for name, value in raw_headers:
            if name == b"authorization":
                scheme, _, key = value.partition(b" ")
                tenant = self._tenants.get(sha256(key.strip()).digest())
                if scheme.lower() == b"bearer" and tenant is not None:
                    return tenant
                raise Unauthorized("the API key is not known")
        raise Unauthorized("send an API key: Authorization: Bearer KEY", code="missing_api_key")
