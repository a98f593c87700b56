"""How well memory finds things, and where its weights come from. `python -m bench.memory --help`."""
