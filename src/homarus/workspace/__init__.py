"""The agent's home folder: which files it holds, how they are read, and what of them a model gets to see."""
