"""What a model may do: each tool with its limits, and one gate that every call goes through."""
