"""Training and evaluation of predictors as processes: hidden states of real models, the run."""
