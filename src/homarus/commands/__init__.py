"""What a person types after a slash."""
