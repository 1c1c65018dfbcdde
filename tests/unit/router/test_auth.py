"""API keys."""

import pytest

from router.auth import Authenticator
from router.errors import Unauthorized


def test_without_keys_everyone_is_the_default_tenant():
    auth = Authenticator({})
    assert auth.tenant([(b"authorization", b"Bearer anything")]) == "default"
    assert not auth.required


def test_a_key_names_its_tenant():
    auth = Authenticator({"k1": "acme", "k2": "globex"})
    assert auth.tenant([(b"x", b"y"), (b"authorization", b"bearer k2")]) == "globex"


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [(b"authorization", b"Bearer k")],
        [(b"authorization", b"Bearer k11")],
        [(b"authorization", b"Basic k1")],
        [(b"authorization", b"k1")],
        [(b"authorization", b"Bearer \xff")],
    ],
)
def test_anything_else_is_refused(headers):
    with pytest.raises(Unauthorized) as caught:
        Authenticator({"k1": "acme"}).tenant(headers)
    assert caught.value.status == 401
