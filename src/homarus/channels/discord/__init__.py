"""Discord, through a bot's gateway and REST connection."""
