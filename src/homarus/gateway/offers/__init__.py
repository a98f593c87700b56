"""What a home offers to its tools: the other side of each contract in `tools.services`."""
