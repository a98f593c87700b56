"""When a turn runs: a durable inbox, one lane per session, and the rules for messages that meet a running turn.

The queue never imports the agent: whoever composes the program passes in what runs a turn.
"""
