"""Run a model, a training or a script, to be recorded."""
