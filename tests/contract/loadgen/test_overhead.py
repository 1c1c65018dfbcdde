"""The measure of the load generator itself: known times come out as they are."""

from loadgen.overhead import CALLS, TARGET_LAG_MS, measure_overhead, verdict


async def test_a_small_one():
    row = await measure_overhead(concurrency=20, rate=100.0, duration_s=1.0)
    assert row["calls"] == 25 * CALLS
    assert row["errors"] == 0
    assert 2 <= row["peak_streams"] <= 100
    # An answer cannot come before it was sent.
    assert row["ttft_error_mean_ms"] >= 0
    assert row["lag_p50_ms"] <= row["lag_p99_ms"] <= row["lag_max_ms"]
    assert "lag p99" in verdict(row)


def test_the_verdict_names_the_side_of_the_target():
    row = {
        "lag_p99_ms": TARGET_LAG_MS - 1,
        "rate": 500.0,
        "cpu_share": 0.25,
        "concurrency": 2000,
        "steady_calls_per_s": 490.0,
    }
    assert "too short" not in verdict(row)
    assert "too short for 2000 streams" in verdict({**row, "steady_calls_per_s": None})
    assert "the endpoint's own; it took 25 % of one core" in verdict(row)
    assert "too small for 500 calls a second" in verdict({**row, "lag_p99_ms": TARGET_LAG_MS + 1})
