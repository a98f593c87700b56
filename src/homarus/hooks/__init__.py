"""Named moments in the life of the program, and the code that wants to hear of them. Knows no configuration."""
