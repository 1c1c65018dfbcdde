import pytest

from pbkv.errors import SettingsError
from pbkv.settings import PolicySettings
from services.bench.variant import check_settings, make_variants, variant_names


def only(text, queue="fcfs"):
    (variant,) = make_variants([text], [queue])
    return variant


def test_an_unknown_variant_lists_the_choices():
    with pytest.raises(SettingsError, match="stock-lru"):
        only("belady")
    with pytest.raises(SettingsError, match="lpm"):
        only("lru", "lifo")


def test_every_named_variant_can_be_made():
    assert [v.policy for v in make_variants(variant_names(), ["fcfs"])] == variant_names()


def test_the_queue_pbkv_replaces_the_engines_own():
    ours, stock = only("lae", "pbkv"), only("lae", "lpm")

    assert (ours.schedule_policy, ours.policy_settings(PolicySettings()).queue) == ("fcfs", "pbkv")
    assert (stock.schedule_policy, stock.policy_settings(PolicySettings()).queue) == ("lpm", "")


@pytest.mark.parametrize("policy", ["session", "stock-lru"])
def test_a_stock_engine_is_refused_under_the_queue_of_the_plug_in(policy):
    with pytest.raises(SettingsError, match="belongs to the plug-in"):
        make_variants(["lae", policy], ["fcfs", "pbkv"])


def test_a_policy_can_name_the_only_queue_it_is_measured_under():
    names = [v.name for v in make_variants(["lae", "session", "lae/pbkv"], ["fcfs", "lpm"])]

    assert names == ["lae/fcfs", "session/fcfs", "lae/lpm", "session/lpm", "lae/pbkv"]
    with pytest.raises(SettingsError, match="unknown queue 'lifo'"):
        only("lae/lifo")


def test_a_variant_has_settings_of_its_own_on_top_of_the_shared_ones():
    shared = PolicySettings(access_model="learned", lookahead_steps=2)
    variant = only("he+direct+newest+gamma=0.9+oracle/pbkv")

    settings = variant.policy_settings(shared)

    assert variant.name == "he+direct+newest+gamma=0.9+oracle/pbkv"
    assert (settings.access_model, settings.tie_rule) == ("direct", "newest")
    assert (settings.gamma, settings.lookahead_steps) == (0.9, 2)
    assert (settings.policy, settings.queue, settings.predictor) == ("he", "pbkv", "oracle")


def test_a_row_says_what_was_measured_and_nothing_without_meaning():
    shared = PolicySettings(access_model="inherit")

    he = only("he+newest").describe(shared)
    assert (he["access_model"], he["tie_rule"], he["predictor"]) == ("inherit", "newest", "markov")
    assert he["settings"] == {"tie_rule": "newest"}
    for variant in (only("lae"), only("session/lpm")):
        row = variant.describe(shared)
        assert (row["access_model"], row["tie_rule"], row["predictor"]) == (None, None, None)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("he+lerned", "oldest-workflow"),
        ("he+direct+learned", "given twice"),
        ("lae+learned", "uses no forecasts"),
        ("lru+oracle", "uses no forecasts"),
        ("session+learned", "stock engine"),
        ("he+queue_max_wait_s=30", "setting of queue pbkv"),
        ("he+policy=lru", "cannot be set of one variant"),
        ("he+predictor_checkpoint=x", "cannot be set of one variant"),
        ("he+", "unknown setting ''"),
    ],
)
def test_a_setting_that_cannot_be_is_refused(text, word):
    with pytest.raises(SettingsError, match=word):
        only(text)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("he+gama=0.9", "unknown setting"),
        ("he+gamma=much", "must be a float"),
        ("he+gamma=1.5", "at most 1"),
        ("he+predictor=crystal-ball", "trained"),
    ],
)
def test_a_wrong_value_is_found_before_an_engine_starts(text, word):
    with pytest.raises(SettingsError, match=word):
        check_settings([only(text)], PolicySettings())


def test_a_variant_is_measured_once():
    with pytest.raises(SettingsError, match="lae/lpm is there twice"):
        make_variants(["lae", "lae/lpm"], ["lpm"])
