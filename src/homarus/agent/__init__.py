"""One agent turn: from a durable message to its answer. There is one loop, for every channel and every caller."""
