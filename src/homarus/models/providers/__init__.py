"""One module per way of reaching a model; each is imported only when a turn needs it."""
