"""`python -m services.models NAME`: build a model if needed and print its folder."""

import argparse
import sys

from services.models import RECIPES, resolve_model
from services.models.errors import ModelError


def main() -> int:
    choices = "; ".join(f"{recipe.name}: {recipe.summary}" for recipe in RECIPES.values())
    parser = argparse.ArgumentParser(prog="python -m services.models", description=choices)
    parser.add_argument("model", help="a name from above, or the path of a model folder")
    try:
        print(resolve_model(parser.parse_args().model))
    except ModelError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
