"""The measure of the load generator itself: known times come out as they are."""

from loadgen.overhead import CALLS, measure_overhead


async def test_a_small_one():
    row = await measure_overhead(concurrency=20, rate=100.0, duration_s=1.0)
    assert row["calls"] == 25 * CALLS
    assert row["errors"] == 0
    assert 2 <= row["peak_streams"] <= 100
    # An answer cannot come before it was sent.
    assert row["ttft_error_mean_ms"] >= 0
    assert row["lag_p50_ms"] <= row["lag_p99_ms"] <= row["lag_max_ms"]
