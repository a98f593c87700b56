"""The one long-running process, and the only place where the packages below are put together."""
