import pytest

from pbkv.errors import SettingsError
from pbkv.settings import PolicySettings


def test_environment_round_trip():
    settings = PolicySettings(
        policy="lru", idle_timeout_s=12.5, redis_url="redis://h:1", replica_id="r1"
    )

    assert PolicySettings.from_env(settings.to_env()) == settings


def test_other_variables_are_left_alone():
    assert PolicySettings.from_env({"PATH": "/bin", "PBKV_CACHE_DIR": "x"}) == PolicySettings()


@pytest.mark.parametrize(
    ("environ", "word"),
    [
        ({"PBKV_ENGINE_POLCY": "lae"}, "unknown setting PBKV_ENGINE_POLCY"),
        ({"PBKV_ENGINE_IDLE_TIMEOUT_S": "soon"}, "must be a float"),
        ({"PBKV_ENGINE_IDLE_TIMEOUT_S": "0"}, "above 0"),
        ({"PBKV_ENGINE_MAX_WORKFLOWS": "-3"}, "at least 1"),
        ({"PBKV_ENGINE_REDIS_URL": "redis://h:1"}, "together"),
    ],
)
def test_a_bad_setting_is_named(environ, word):
    with pytest.raises(SettingsError, match=word):
        PolicySettings.from_env(environ)
