"""The paper's tables and figures from simulations, each beside what the paper says."""
