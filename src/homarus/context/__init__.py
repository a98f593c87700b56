"""What the model sees of the session: repaired, pruned, and summarised when it grows too long. The log itself never shrinks."""
