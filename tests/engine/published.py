"""Checkpoints that tests publish for a running engine."""

from __future__ import annotations

from pathlib import Path

from pbkv.predict import MarkovPredictor
from services.training.publication import CheckpointFolder, fit_into


def publish_markov(folder: CheckpointFolder, following: str) -> Path:
    """A Markov model by which ``following`` comes after Planner, and then the end."""
    predictor = MarkovPredictor(steps=3)
    for _ in range(50):
        predictor.observe(("Planner",), following)
        predictor.observe(("Planner", following), None)
    return folder.publish(fit_into(folder, ".json", predictor.save), {})
