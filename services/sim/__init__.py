"""Grids of simulations over processes, and what is shown of them."""
