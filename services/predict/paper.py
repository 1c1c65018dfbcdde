"""What the paper reports for its predictors, to stand beside what is measured here."""

from __future__ import annotations

Accuracies = tuple[float, float, float]

TABLE_3: dict[tuple[str, str], Accuracies] = {
    ("graphsage", ""): (0.935, 0.848, 0.771),
    ("rgcn", ""): (0.896, 0.823, 0.710),
    ("transformer", "1L"): (0.899, 0.811, 0.690),
    ("transformer", "2L"): (0.896, 0.810, 0.688),
    ("tcn", "small"): (0.901, 0.824, 0.717),
    ("tcn", "large"): (0.898, 0.831, 0.726),
    ("mlp", "tiny"): (0.786, 0.656, 0.494),
    ("mlp", "small"): (0.889, 0.801, 0.684),
    ("mlp", "deep"): (0.899, 0.824, 0.714),
    ("linear-probe", "post-norm"): (0.840, 0.732, 0.576),
    ("knn", "k=5"): (0.839, 0.699, 0.564),
    ("knn", "k=20"): (0.817, 0.707, 0.576),
    ("markov", "n=1"): (0.752, 0.555, 0.295),
    ("markov", "n=2"): (0.774, 0.601, 0.383),
    ("markov", "n=3"): (0.786, 0.656, 0.490),
}
"""Table 3: s1, s2, s3 on HoVer with 1,000 training traces, mean over 10 seeds."""
