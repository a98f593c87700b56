"""Conversations on disk: an append-only transcript per session and one index of them all. Nothing is ever rewritten."""
