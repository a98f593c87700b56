"""What a running home offers to its tools."""
