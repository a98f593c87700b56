"""Turns that nobody typed: jobs by the clock, heartbeats, events, web hooks. An idle agent costs nothing."""
