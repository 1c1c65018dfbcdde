"""Settings are strict at the door."""

import pytest

from router.errors import SettingsError
from router.settings import RouterSettings


def test_defaults_need_no_environment():
    assert RouterSettings.from_env({"OTHER": "x"}) == RouterSettings()


def test_reads_the_environment():
    settings = RouterSettings.from_env(
        {
            "PBKV_ROUTER_PORT": "9000",
            "PBKV_ROUTER_REFRESH_S": "0.25",
            "PBKV_ROUTER_API_KEYS": '{"k1": "acme"}',
        }
    )
    assert (settings.port, settings.refresh_s, settings.api_keys) == (9000, 0.25, {"k1": "acme"})


@pytest.mark.parametrize(
    ("variable", "value", "words"),
    [
        ("PBKV_ROUTER_PROT", "1", "unknown setting PBKV_ROUTER_PROT; known: .*PBKV_ROUTER_PORT"),
        ("PBKV_ROUTER_PORT", "many", "PBKV_ROUTER_PORT: .*integer"),
        ("PBKV_ROUTER_PORT", "70000", "PBKV_ROUTER_PORT: .*65535"),
        ("PBKV_ROUTER_REFRESH_S", "0", "PBKV_ROUTER_REFRESH_S: .*greater than 0"),
        ("PBKV_ROUTER_TOTAL_TIMEOUT_S", "inf", "PBKV_ROUTER_TOTAL_TIMEOUT_S: .*finite"),
        ("PBKV_ROUTER_REDIS_URL", "http://x", "PBKV_ROUTER_REDIS_URL: redis URL: it must start"),
        ("PBKV_ROUTER_API_KEYS", "k1", "PBKV_ROUTER_API_KEYS: must be a JSON object"),
        ("PBKV_ROUTER_API_KEYS", '{"secret": "a:b"}', "PBKV_ROUTER_API_KEYS: "),
        ("PBKV_ROUTER_API_KEYS_FILE", "/nowhere/keys.json", "cannot be read"),
    ],
)
def test_bad_values_are_named_in_one_line(variable, value, words):
    with pytest.raises(SettingsError, match=words) as caught:
        RouterSettings.from_env({variable: value})
    assert "\n" not in caught.value.message
    assert "secret" not in caught.value.message


def test_keys_from_a_file(tmp_path):
    path = tmp_path / "keys.json"
    path.write_text('{"k": "acme"}')
    settings = RouterSettings.from_env({"PBKV_ROUTER_API_KEYS_FILE": str(path)})
    assert settings.api_keys == {"k": "acme"}
    assert '"k"' not in repr(settings) and "'k'" not in repr(settings)


@pytest.mark.parametrize("content", ["", "{}", "[]", "{", '{"k": "not a tenant"}'])
def test_a_bad_key_file_does_not_open_the_door(tmp_path, content):
    path = tmp_path / "keys.json"
    path.write_text(content)
    with pytest.raises(SettingsError):
        RouterSettings.from_env({"PBKV_ROUTER_API_KEYS_FILE": str(path)})


def test_unknown_argument_is_an_error():
    with pytest.raises(SettingsError, match="PROT"):
        RouterSettings.of({"prot": 1})
