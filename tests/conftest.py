"""What holds for every test."""

from hypothesis import HealthCheck, settings

# The same examples in every run, and no example fails for being slow: machines are shared.
settings.register_profile(
    "pbkv", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("pbkv")
