"""Servers of the Model Context Protocol: their tools, beside our own."""
