import pytest

from pbkv.errors import SettingsError
from pbkv.settings import PolicySettings


def test_environment_round_trip():
    settings = PolicySettings(
        policy="lru", idle_timeout_s=12.5, redis_url="redis://h:1", replica_id="r1"
    )

    assert PolicySettings.from_env(settings.to_env()) == settings


@pytest.mark.parametrize(
    ("text", "value"), [("true", True), ("1", True), ("False", False), ("0", False)]
)
def test_a_flag_is_read_as_it_is_meant(text, value):
    settings = PolicySettings.from_env({"PBKV_ENGINE_QUEUE_KNOWLEDGE": text})

    assert settings.queue_knowledge is value
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
        ({"PBKV_ENGINE_QUEUE": "lpm"}, "unknown queue 'lpm'; choose pbkv"),
        ({"PBKV_ENGINE_QUEUE_MAX_WAIT_S": "0"}, "above 0"),
        ({"PBKV_ENGINE_QUEUE_MAX_WAIT_S": "nan"}, "above 0"),
        ({"PBKV_ENGINE_QUEUE_CACHED_WEIGHT": "-1"}, "0 or above"),
        ({"PBKV_ENGINE_QUEUE_REMAINING_WEIGHT": "inf"}, "0 or above"),
        ({"PBKV_ENGINE_QUEUE_KNOWLEDGE": "maybe"}, "must be a bool, got 'maybe'"),
        ({"PBKV_ENGINE_QUEUE_KNOWLEDGE": ""}, "must be a bool"),
        ({"PBKV_ENGINE_PREDICTOR_RELOAD_S": "-1"}, "0 or above"),
        ({"PBKV_ENGINE_PREDICTOR_RELOAD_S": "nan"}, "0 or above"),
        ({"PBKV_ENGINE_TRACE_HIDDEN_MAX_MB": "0"}, "at least 1"),
        ({"PBKV_ENGINE_TRACE_HIDDEN_FLUSH_S": "0"}, "above 0"),
        ({"PBKV_ENGINE_SHADOW_PREDICTOR": "markov"}, "shadow_checkpoint is not"),
        (
            {"PBKV_ENGINE_SHADOW_CHECKPOINT": "x", "PBKV_ENGINE_PREDICTOR": "none"},
            "shadow_checkpoint is set, but predictor is none",
        ),
    ],
)
def test_a_bad_setting_is_named(environ, word):
    with pytest.raises(SettingsError, match=word):
        PolicySettings.from_env(environ)
