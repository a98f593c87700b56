"""Slack, through Socket Mode and the Web API."""
