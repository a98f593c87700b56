"""Slash commands: what a person tells the program instead of the model. Handled before the queue, without a model."""
