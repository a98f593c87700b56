"""Signal, through the daemon of signal-cli."""
