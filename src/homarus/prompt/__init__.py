"""The system prompt: a pure renderer of small sections, and what rides on the newest user turn instead of in it."""
