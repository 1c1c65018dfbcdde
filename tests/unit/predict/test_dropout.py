"""Dropout by bytes does what dropout does."""

import pytest
import torch

from pbkv.predict.dropout import ByteDropout


@pytest.mark.parametrize("probability", [0.25, 0.5])
def test_a_share_is_dropped_and_the_rest_makes_up_for_it(probability):
    torch.manual_seed(0)
    x = torch.ones(401, 499)

    y = ByteDropout(probability)(x)

    dropped = (y == 0).float().mean()
    assert float(dropped) == pytest.approx(probability, abs=0.01)
    assert y[y > 0].unique().tolist() == pytest.approx([1 / (1 - probability)])


def test_neighbours_are_dropped_independently():
    torch.manual_seed(0)
    kept = (ByteDropout(0.5)(torch.ones(100_001)) > 0).float() - 0.5

    for distance in range(1, 9):
        assert abs(float((kept[:-distance] * kept[distance:]).mean())) < 0.01


def test_it_follows_the_seed():
    drops = []
    for _ in range(2):
        torch.manual_seed(3)
        drops.append(ByteDropout(0.5)(torch.ones(64)))
    assert torch.equal(*drops)


def test_nothing_is_dropped_outside_training_or_at_zero():
    x = torch.ones(64)
    assert torch.equal(ByteDropout(0.5).eval()(x), x)
    assert torch.equal(ByteDropout(0.0)(x), x)


def test_a_probability_of_one_is_refused():
    with pytest.raises(ValueError, match="probability"):
        ByteDropout(1.0)
