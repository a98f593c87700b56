"""Turns that a turn asks for."""
