"""The mind of `builtin/notebook`: small rules that turn a message into tool calls and their results into an answer. Pure."""
