"""Predictors that learn from what the cluster serves: the trace stream, publication, rollback."""
